"""The tasks of a session: what is planned, spoken of, done since, and left running."""
