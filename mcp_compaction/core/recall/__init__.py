"""Recall: what a question means, what is found for it, and which of it is shown."""
