"""Tells for thousands of queries at once which messages hold all their words.

To ask a full-text index would cost each query a look at all places of every common word it names.
Here the texts are read once, and a phrase is looked for only where all its words stand.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from mcp_compaction.core.recall.terms import Way, ways_of
from mcp_compaction.core.text.patterns import pattern_of

_WORD = pattern_of(r"[^\W_]+")

Stem = Callable[[Collection[str]], Mapping[str, str]]
"""Gives for words in small letters what an index knows each of them by."""

_Words = tuple[str, ...]


class Passage(NamedTuple):
    """A piece of a message, and what it is found by besides its words."""

    number: int  # of the message
    text: str
    keys: str = ""


class PassageWords:
    """The words of some passages as an index knows them: in these, queries are looked for."""

    def __init__(self, passages: Sequence[Passage], stem: Stem) -> None:
        """Read each passage once, for all queries that will come."""
        read = [(one.number, _words_of(text)) for one in passages for text in (one.text, one.keys)]
        stems = stem(set[str]().union(*(words for _, words in read)))
        self._stem = stem
        self._with: dict[str, set[int]] = defaultdict(set)  # the messages with each word
        self._texts: dict[int, list[str]] = defaultdict(list)
        for number, words in read:
            stemmed = [stems[word] for word in words]
            self._texts[number].append(f" {' '.join(stemmed)} ")
            for word in set(stemmed):
                self._with[word].add(number)

    def find_messages_with_all(
        self, queries: Sequence[Sequence[str]], limit: int
    ) -> tuple[tuple[int, ...], ...]:
        """For each query, given by its terms, the newest messages that hold all of them.

        Where no message holds all, those count that hold all but one: a long line's last word may
        be cut.
        """
        ways = {term: ways_of(term) for query in queries for term in query}
        said = {way.phrase: _words_of(way.phrase) for found in ways.values() for way in found}
        stems = self._stem({word for words in said.values() for word in words})
        phrases = {phrase: tuple(stems[word] for word in words) for phrase, words in said.items()}
        holders = {
            term: set[int]().union(*(self._messages_with(phrases[w.phrase], w) for w in found))
            for term, found in ways.items()
            if any(phrases[way.phrase] for way in found)
        }
        held = ([holders[term] for term in query if term in holders] for query in queries)
        return tuple(_newest_with_all(sorted(sets, key=len), limit) for sets in held)

    def _messages_with(self, words: _Words, way: Way) -> set[int]:
        """The messages in which these words stand side by side; the last of them may go on."""
        if not words:
            return set()
        *before, last = words
        ends = self._words_from(last) if way.is_start else (last,)
        found = set[int]().union(*(self._with.get(end, ()) for end in ends))
        found = found.intersection(*(self._with.get(word, ()) for word in before))
        if not before:
            return found
        phrase = f" {' '.join(words)}{'' if way.is_start else ' '}"
        return {n for n in found if any(phrase in text for text in self._texts[n])}

    def _words_from(self, start: str) -> Sequence[str]:
        known = self._in_order
        return known[bisect_left(known, start) : bisect_left(known, f"{start}\U0010ffff")]

    @cached_property
    def _in_order(self) -> list[str]:
        return sorted(self._with)


def _newest_with_all(held: Sequence[set[int]], limit: int) -> tuple[int, ...]:
    """The newest of what is in all of some sets, or in all but one; the smallest comes first."""
    found = held[0].intersection(*held[1:]) if held else set[int]()
    if not found and len(held) > 1:
        likely = held[0] | held[1]  # whatever is in neither is missing in two
        found = {n for n in likely if sum(n not in numbers for numbers in held) == 1}
    return tuple(sorted(found, reverse=True)[:limit])


def _words_of(text: str) -> _Words:
    return tuple(_WORD.findall(text.lower()))
