"""The pure decisions: no clock, no environment, no randomness, no logging, no I/O."""
