"""Which messages hold a query's words: the same as a plain search for each would say."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from mcp_compaction.core.recall.terms import Passage, PassageWords

WORDS = st.sampled_from(
    ["src", "api", "limits", "py", "bad", "token", "error", "7f3a91", "7f3a91c2"]
)
TEXTS = st.lists(WORDS, min_size=1, max_size=6).map(" ".join)
TERMS = st.lists(WORDS, min_size=1, max_size=3).map("/".join)


def passages_of(*texts: str) -> list[Passage]:
    return [Passage(number, text) for number, text in enumerate(texts, 1)]


def places_by_hand(term: str, passages: Sequence[Passage]) -> dict[int, int]:
    """How often each passage that holds a term does, by its place."""
    pattern = re.compile(rf"\b(?={re.escape(term.replace('/', ' '))}\b)")
    found = {n: len(pattern.findall(passage.text)) for n, passage in enumerate(passages)}
    return {n: times for n, times in found.items() if times}


@given(
    st.lists(st.tuples(st.integers(1, 12), TEXTS), min_size=1, max_size=25),
    st.lists(st.lists(TERMS, min_size=1, max_size=3), min_size=1, max_size=6),
    st.integers(1, 5),
)
def test_many_queries_find_what_each_would_find_alone(
    said: list[tuple[int, str]], queries: list[list[str]], limit: int
) -> None:
    passages = [Passage(number, text) for number, text in said]
    found = PassageWords(passages).find_messages_with_all(queries, limit)
    for query, numbers in zip(queries, found, strict=True):
        assert PassageWords(passages).find_messages_with_all([query], limit) == (numbers,)
        held = [{passages[n].number for n in places_by_hand(term, passages)} for term in query]
        if all(held):
            assert list(numbers) == sorted(set[int].intersection(*held), reverse=True)[:limit]


def test_a_word_that_was_cut_hides_nothing() -> None:
    passages = passages_of("git log --oneline --decorate", "git show")
    assert PassageWords(passages).find_messages_with_all([["git", "--oneline", "--decor"]], 5) == (
        (1,),
    )
