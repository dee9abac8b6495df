"""Checks a draft against its source before it may stand for a span."""
