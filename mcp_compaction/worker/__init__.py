"""Compacts large windows in a process of their own, for the server and the gateway."""
