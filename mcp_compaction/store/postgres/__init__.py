"""The store of a team: PostgreSQL, where every row and every statement names its owner."""
