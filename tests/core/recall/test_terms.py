"""Terms: what a passage is found by besides its words, and how close a text comes to a name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_compaction.core.recall.terms import (
    Closeness,
    closeness_of,
    is_name,
    keys_of,
    parts_of_term,
    ways_of,
)


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("half_open.py", "see half_open.py.", Closeness.WHOLE),
        ("half_open.py", "see src/half_open.py", Closeness.PARTLY),
        ("half_open.py", "see half_open_test.py", Closeness.NOT),
        ("half_open", "call halfOpen()", Closeness.RESPELLED),
        ("halfOpen", "the half-open port", Closeness.RESPELLED),
        ("parse_token", "parse_tokens", Closeness.NOT),
        ("a.b.c", "import a.b.c.d", Closeness.PARTLY),
        ("3f9a2b", "commit 3f9a2b77c1", Closeness.WHOLE),
        ("3f9a2b", "commit 03f9a2b7", Closeness.NOT),
        ("据库", "用数据库", Closeness.WHOLE),
    ],
)
def test_a_name_counts_whole_respelled_as_a_part_or_not(
    name: str, text: str, expected: Closeness
) -> None:
    assert closeness_of(name, text) is expected


@given(st.text(max_size=200), st.text(max_size=200))
def test_any_text_has_keys_ways_parts_and_a_closeness(term: str, text: str) -> None:
    keys_of(text)
    assert ways_of(term)
    parts_of_term(term)
    is_name(term)
    closeness_of(term, text)
    assert not is_name(term) or not term.isalnum() or closeness_of(term, term) is Closeness.WHOLE
