"""A text is looked for by its words, with the answer a plain look would give."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mcp_compaction.core.text.words import Haystack

SAID = st.text(alphabet="ab \n", max_size=40)


@given(SAID, SAID)
def test_a_part_is_held_where_it_stands_sign_by_sign(text: str, part: str) -> None:
    assert Haystack(text).holds(part) == (part in text)


@given(SAID, st.integers(0, 40), st.integers(0, 40))
def test_every_part_of_a_text_is_held(text: str, start: int, end: int) -> None:
    assert Haystack(text).holds(text[start:end])
