"""A gateway on loopback between a host and its model: requests pass, and windows really shrink."""
