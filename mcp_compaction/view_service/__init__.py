"""Gives programs between a host and its model what to send in place of the host's own messages."""
