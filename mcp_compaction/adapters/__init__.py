"""Adapters for programs that run an agent's loop themselves."""
