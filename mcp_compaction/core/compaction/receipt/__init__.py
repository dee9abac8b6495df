"""The sentences about a compaction that a caller reads: the receipt, its notes, the reasons."""
