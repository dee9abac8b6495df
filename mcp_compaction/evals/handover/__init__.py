"""Measures how good a handover a view is, by what the rest of a real session needed."""
