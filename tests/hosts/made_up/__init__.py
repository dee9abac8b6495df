"""A host that nobody has: all that is known of it, and who reads its transcripts."""
