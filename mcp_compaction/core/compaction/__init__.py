"""One compaction: whether, how far, by which rungs, and what the receipt says."""
