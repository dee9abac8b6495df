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


def test_a_text_is_read_once_and_of_very_long_ones_the_last_few_are_kept() -> None:
    read: list[int] = []

    @read_once
    def length(text: str) -> int:
        read.append(len(text))
        return len(text)

    long = ["x" * size for size in range(100_000, 100_005)]
    for text in ("a", *long, "a", long[-1], long[0]):
        length(text)
    assert read == [1, *range(100_000, 100_005), 100_000]
