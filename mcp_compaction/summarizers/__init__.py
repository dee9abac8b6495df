"""Summarizers, which write the prose of a digest; one file each."""
