"""Digests: what stands in one, how it is written, and how a draft is checked."""
