"""The demonstration: a long coding session, played against the real server."""
