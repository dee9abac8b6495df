"""Runs that two sequences have in common: all true, in order, and cheap to find."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mcp_compaction.core.log.alignment import find_matches

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


def test_long_sequences_in_which_much_is_said_again_are_found_by_what_is_said_once() -> None:
    said = ["first", *("continue" if n % 2 else f"answer {n}" for n in range(2_000)), "last"]
    sent = ["other", *(item for n, item in enumerate(said) if n % 7), "new"]
    assert sum(match.size for match in find_matches(said, sent)) == len(sent) - 2
