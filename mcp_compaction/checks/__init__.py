"""Rules that can be checked before a tool runs; standard library only, so that hooks may use it."""
