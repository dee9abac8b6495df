"""Excerpts: what is still shown, word for word, of messages that left the window."""
