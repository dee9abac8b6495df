"""Tells for thousands of queries at once which messages hold all their words.

To ask a full-text index would cost each query a look at all places of every common word it names.
Here the texts are read once, and at each word only those phrases are followed that begin so.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import compress, takewhile
from string import ascii_lowercase, digits
from typing import NamedTuple

from mcp_compaction.core.recall.terms import ways_of
from mcp_compaction.core.text.patterns import (
    cut_words,
    cutting_table,
    pattern_of,
    without_wide_signs,
)

_WORD = pattern_of(r"[^\W_]+")
_LETTERS = cutting_table(ascii_lowercase + digits)

Stem = Callable[[Collection[str]], Mapping[str, str]]
"""Gives for words in small letters what an index knows each of them by."""

_Words = tuple[str, ...]
_Term = tuple[int, ...]  # any of these phrases will do


class Passage(NamedTuple):
    """A piece of a message, and what it is found by besides its words."""

    number: int  # of the message
    text: str
    keys: str = ""


class _Phrase(NamedTuple):
    """Words that stand side by side; the last of them may go on."""

    words: _Words
    is_start: bool = False


class _Node:
    """The phrases that begin with the same words."""

    __slots__ = ("ends", "following")

    def __init__(self) -> None:
        self.following: dict[str, _Node] = {}
        self.ends: list[int] = []  # phrases that are complete here


class PassageWords:
    """The words of some passages as an index knows them: in these, queries are looked for."""

    def __init__(self, passages: Sequence[Passage], stem: Stem) -> None:
        """Read each passage once, for all queries that will come."""
        texts = [_words_of(passage.text) for passage in passages]
        keys = [_words_of(passage.keys) if passage.keys else () for passage in passages]
        stems = stem(set[str]().union(*texts, *keys))
        self._stem = stem
        self._known = frozenset(stems.values())
        self._texts = [[*map(stems.__getitem__, text)] for text in texts]
        self._keys = [[*map(stems.__getitem__, key)] for key in keys]
        self._numbers = [passage.number for passage in passages]

    def find_messages_with_all(
        self, queries: Sequence[Sequence[str]], limit: int
    ) -> tuple[tuple[int, ...], ...]:
        """For each query, given by its terms, the newest messages that hold all of them.

        Where no message holds all, those count that hold all but one: a long line's last word may
        be cut.
        """
        found = [
            [[(_words_of(way.phrase), way) for way in ways_of(term)] for term in q] for q in queries
        ]
        stems = self._stem({w for query in found for term in query for ws, _ in term for w in ws})
        phrases: dict[_Phrase, int] = {}

        def number_of(words: _Words, is_start: bool) -> int:
            stemmed = tuple(stems[word] for word in words)
            return phrases.setdefault(_Phrase(stemmed, is_start), len(phrases))

        asked = [
            [
                numbers
                for term in query
                if (
                    numbers := tuple(number_of(words, way.is_start) for words, way in term if words)
                )
            ]
            for query in found
        ]
        holders: list[set[int]] = [set() for _ in phrases]
        root = _build_tree(list(phrases), self._known)
        for number, *words in zip(self._numbers, self._texts, self._keys, strict=True):
            for some in words:
                _follow(root, some, number, holders)
        return tuple(_newest_with_all(terms, holders, limit) for terms in asked)


def _follow(root: _Node, words: Sequence[str], number: int, holders: Sequence[set[int]]) -> None:
    """Note a message with every phrase that stands in some words of it."""
    first, last = root.following, len(words)
    for start in compress(range(last), map(first.__contains__, words)):
        node: _Node | None = first[words[start]]
        following = start
        while node is not None:
            for phrase in node.ends:
                holders[phrase].add(number)
            following += 1
            node = node.following.get(words[following]) if following < last else None


def _newest_with_all(
    terms: Sequence[_Term], holders: Sequence[set[int]], limit: int
) -> tuple[int, ...]:
    held = sorted((set[int]().union(*(holders[p] for p in term)) for term in terms), key=len)
    found = held[0].intersection(*held[1:]) if held else set[int]()
    if not found and len(held) > 1:
        found = _in_all_but_one(held)
    return tuple(sorted(found, reverse=True)[:limit])


def _in_all_but_one(held: Sequence[set[int]]) -> set[int]:
    """What is missing in at most one of some sets, which are sorted by size."""
    likely = held[0] | held[1]  # whatever is in neither is missing in two
    return {n for n in likely if sum(n not in numbers for numbers in held) == 1}


def _build_tree(phrases: Sequence[_Phrase], stems: Collection[str]) -> _Node:
    """The phrases by their words; one that may go on stands there with all its endings."""
    root = _Node()
    known = sorted(stems) if any(phrase.is_start for phrase in phrases) else []
    for number, phrase in enumerate(phrases):
        *before, last = phrase.words
        node = root
        for word in before:
            node = node.following.setdefault(word, _Node())
        for word in _endings_of(last, known) if phrase.is_start else (last,):
            node.following.setdefault(word, _Node()).ends.append(number)
    return root


def _endings_of(start: str, known: Sequence[str]) -> Iterable[str]:
    first = bisect_left(known, start)
    places = takewhile(lambda n: known[n].startswith(start), range(first, len(known)))
    return (known[place] for place in places)


def _words_of(text: str) -> _Words:
    plain = without_wide_signs(text)
    return tuple(cut_words(plain, _LETTERS) if plain.isascii() else _WORD.findall(text.lower()))
