"""Agent-controlled compaction of a context window; importing this alone loads nothing heavy."""
