"""Decisions: which sentences state one, and which a later one has superseded."""
