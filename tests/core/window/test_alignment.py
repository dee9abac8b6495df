"""Runs that two sequences have in common: all true, in order, and cheap to find."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_compaction.core.window import alignment
from mcp_compaction.core.window.alignment import SharedRun, find_matches

WORDS = st.lists(st.sampled_from("abcdefghijklmnop"), max_size=30)


@given(WORDS, WORDS)
def test_matches_are_equal_runs_in_the_order_of_both(first: list[str], second: list[str]) -> None:
    a = b = 0
    for match in find_matches(first, second):
        assert match.size > 0
        assert match.first >= a
        assert match.second >= b
        a, b = match.first + match.size, match.second + match.size
        assert first[match.first : a] == second[match.second : b]


@given(WORDS, WORDS, WORDS)
def test_what_was_put_in_between_leaves_both_ends(
    start: list[str], between: list[str], end: list[str]
) -> None:
    found = sum(match.size for match in find_matches([*start, *end], [*start, *between, *end]))
    assert found == len(start) + len(end)


@given(st.permutations("abcdefgh"))
def test_the_longest_row_in_order_is_found(items: list[str]) -> None:
    found = sum(match.size for match in find_matches("abcdefgh", items))
    best = [0] * len(items)
    for place, item in enumerate(items):
        best[place] = 1 + max((best[n] for n in range(place) if items[n] < item), default=0)
    assert found == max(best)


def test_runs_without_an_anchor_are_found_too() -> None:
    assert find_matches("xabababy", "zababw") == [SharedRun(1, 1, 4)]


def said_again_and_again(count: int, *, each_second: str | None) -> list[str]:
    return ["continue" if n % 2 else each_second or f"answer {n}" for n in range(count)]


@pytest.mark.parametrize("each_second", [None, "yes"])
def test_long_sequences_are_not_compared_item_by_item(
    monkeypatch: pytest.MonkeyPatch, each_second: str | None
) -> None:
    compared: list[int] = []

    class Counting(SequenceMatcher[str]):
        def __init__(
            self, isjunk: None, a: Sequence[str], b: Sequence[str], *, autojunk: bool
        ) -> None:
            compared.append(len(a) * len(b))
            super().__init__(isjunk, a, b, autojunk)

    monkeypatch.setattr(alignment, "SequenceMatcher", Counting)
    said = ["first", *said_again_and_again(2_000, each_second=each_second), "last"]
    sent = ["other", *(item for n, item in enumerate(said) if n % 7), "new"]
    found = find_matches(said, sent)
    assert sum(compared) < 20_000
    if each_second is None:
        assert sum(match.size for match in found) == len(sent) - 2
