"""Tests of setting hosts up."""
