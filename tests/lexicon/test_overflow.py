"""Errors of providers that say the window is too small are told from other errors."""

from __future__ import annotations

import re

import pytest

from mcp_compaction.lexicon.models import Overflow, is_overflow, known_overflows, limit_in


@pytest.mark.parametrize("known", known_overflows(), ids=lambda known: known.by)
def test_each_way_of_saying_it_is_known_by_its_own_pattern_and_its_near_miss_by_none(
    known: Overflow,
) -> None:
    assert re.search(known.pattern, known.example, re.IGNORECASE)
    assert is_overflow(f"Error code: 400 - {known.example.upper()}")
    assert not is_overflow(known.near_miss)


@pytest.mark.parametrize("known", known_overflows(), ids=lambda known: known.by)
def test_the_limit_that_an_error_names_is_read_and_none_where_it_names_none(
    known: Overflow,
) -> None:
    assert limit_in(f"Error code: 400 - {known.example}") == known.limit
    assert limit_in(known.near_miss) is None
