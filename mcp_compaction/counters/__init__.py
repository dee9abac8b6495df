"""Exact token counters; the estimator that needs nothing is the core's."""
