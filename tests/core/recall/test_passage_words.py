"""Which messages hold a query's words: the same as a plain search for each would say."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from math import log

from hypothesis import given
from hypothesis import strategies as st

from mcp_compaction.core.recall.passage_words import Passage, PassageWords

WORDS = st.sampled_from(
    ["src", "api", "limits", "py", "bad", "token", "error", "7f3a91", "7f3a91c2"]
)
TEXTS = st.lists(WORDS, min_size=1, max_size=6).map(" ".join)
TERMS = st.lists(WORDS, min_size=1, max_size=3).map("/".join)


def as_it_is(words: Collection[str]) -> dict[str, str]:
    return {word: word for word in words}


def passages_of(*texts: str) -> list[Passage]:
    return [Passage(number, text) for number, text in enumerate(texts, 1)]


def places_by_hand(term: str, passages: Sequence[Passage]) -> dict[int, int]:
    """How often each passage that holds a term does, by its place."""
    is_start = re.fullmatch(r"(?=[0-9]*[a-f])(?=[a-f]*[0-9])[0-9a-f]{6,}", term)
    words, end = re.escape(term.replace("/", " ")), "" if is_start else r"\b"
    pattern = re.compile(rf"\b(?={words}{end})")
    found = {n: len(pattern.findall(passage.text)) for n, passage in enumerate(passages)}
    return {n: times for n, times in found.items() if times}


def best_by_hand(terms: Sequence[str], passages: Sequence[Passage], limit: int) -> set[int]:
    """The messages that hold all the terms among the best of those that hold any, by BM25."""
    places = [places_by_hand(term, passages) for term in dict.fromkeys(terms)]
    sizes = [len(passage.text.split()) for passage in passages]
    mean = sum(sizes) / len(sizes)
    scores: dict[int, float] = {}
    for n, passage in enumerate(passages):
        score = 0.0
        for found in places:
            rarity = max(1e-6, log((len(passages) - len(found) + 0.5) / (len(found) + 0.5)))
            count = found.get(n, 0)
            score += rarity * 2.2 * count / (count + 1.2 * (0.25 + 0.75 * sizes[n] / mean))
        if score:
            scores[passage.number] = max(score, scores.get(passage.number, 0.0))
    ranked = sorted(scores, key=lambda number: (-round(scores[number], 9), -number))
    holding = [{passages[n].number for n in found} for found in places]
    return {number for number in ranked[:limit] if all(number in held for held in holding)}


@given(
    st.lists(st.tuples(st.integers(1, 12), TEXTS), min_size=1, max_size=25),
    st.lists(st.lists(TERMS, min_size=1, max_size=3), min_size=1, max_size=6),
    st.integers(1, 5),
)
def test_many_queries_find_what_each_would_find_alone(
    said: list[tuple[int, str]], queries: list[list[str]], limit: int
) -> None:
    passages = [Passage(number, text) for number, text in said]
    found = PassageWords(passages, as_it_is).find_messages_with_all(queries, limit)
    for query, numbers in zip(queries, found, strict=True):
        assert PassageWords(passages, as_it_is).find_messages_with_all([query], limit) == (numbers,)
        expected = best_by_hand(query, passages, limit)
        if expected:
            assert set(numbers) == expected


def test_words_count_only_side_by_side() -> None:
    passages = passages_of("look at src/api/limits.py", "limits of the api in src")
    assert PassageWords(passages, as_it_is).find_messages_with_all([["src/api/limits.py"]], 5) == (
        (1,),
    )


def test_of_more_than_the_limit_the_shortest_and_newest_come_first() -> None:
    passages = passages_of("port 80", "port 80 and much else", "port 80", "port 80")
    assert PassageWords(passages, as_it_is).find_messages_with_all([["port=80"]], 2) == ((4, 3),)


def test_a_message_that_holds_all_is_left_out_where_too_many_rank_above_it() -> None:
    long = "token error " + "of many other things " * 30
    passages = passages_of(long, *["token token token"] * 3, *["bad"] * 9)
    assert PassageWords(passages, as_it_is).find_messages_with_all([["token", "error"]], 5) == (
        (1,),
    )
    assert PassageWords(passages, as_it_is).find_messages_with_all([["token"]], 3) == ((4, 3, 2),)


def test_a_word_that_was_cut_hides_nothing() -> None:
    passages = passages_of("git log --oneline --decorate", "git show")
    assert PassageWords(passages, as_it_is).find_messages_with_all(
        [["git", "--oneline", "--decor"]], 5
    ) == ((1,),)


def test_a_term_in_two_passages_of_a_message_is_held_by_it() -> None:
    passages = [Passage(7, "alpha one"), Passage(7, "omega two"), Passage(8, "alpha three")]
    assert PassageWords(passages, as_it_is).find_messages_with_all([["alpha", "omega"]], 5) == (
        (7,),
    )


def test_keys_are_looked_at_and_stems_are_shared() -> None:
    passages = [Passage(1, "see halfOpen", "half Open"), Passage(2, "the tests")]

    def singular(words: Collection[str]) -> dict[str, str]:
        return {word: word.rstrip("s") for word in words}

    found = PassageWords(passages, singular).find_messages_with_all(
        [["halfOpen"], ["half-open"], ["test"], ["?"]], 5
    )
    assert found == ((1,), (1,), (2,), ())
