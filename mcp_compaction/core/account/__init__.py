"""The account: what was said, word for word, and a line for each call with what answered it."""
