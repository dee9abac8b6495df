"""A text is looked for by its words, with the answer a plain look would give."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mcp_compaction.core.text.haystack import Haystack
from mcp_compaction.core.text.reading import read_once

SAID = st.text(alphabet="ab \n", max_size=40)


@given(SAID, SAID)
def test_a_part_is_held_where_it_stands_sign_by_sign(text: str, part: str) -> None:
    assert Haystack(text).holds(part) == (part in text)


@given(SAID, st.integers(0, 40), st.integers(0, 40))
def test_every_part_of_a_text_is_held(text: str, start: int, end: int) -> None:
    assert Haystack(text).holds(text[start:end])


def test_a_text_is_read_once_unless_it_is_very_long() -> None:
    read: list[str] = []

    @read_once
    def length(text: str) -> int:
        read.append(text)
        return len(text)

    long = "x" * 100_000
    assert [length(text) for text in ("a", "a", long, long)] == [1, 1, 100_000, 100_000]
    assert read == ["a", long, long]
