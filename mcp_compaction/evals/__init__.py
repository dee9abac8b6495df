"""Measures what survives a compaction, beside what simpler ways would have kept."""
