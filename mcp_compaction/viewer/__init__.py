"""One local page that shows sessions: fill, compactions, pins, digests, receipts, the archive."""
