"""The rungs, gentlest first; each is one technique and knows none of the others."""
