"""Sends what is recorded here to a team's server: in order, each message once, never awaited."""
