"""Tells for thousands of queries at once which messages hold all their words.

To ask a full-text index would cost each query a look at all places of every common word it names.
Here the texts are read once, and at each word only those phrases are followed that begin so.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import compress, takewhile
from math import log
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
_OF_KEYS = 0.6  # what a key counts beside a word, as in the store's index
_SATURATION, _LENGTH = 1.2, 0.75  # BM25's k1 and b
_TINY = 1e-6  # scores that differ by less are equal

Stem = Callable[[Collection[str]], Mapping[str, str]]
"""Gives for words in small letters what an index knows each of them by."""

_Words = tuple[str, ...]
_Term = tuple[int, ...]  # any of these phrases will do


class Passage(NamedTuple):
    """A piece of a message, and what it is found by besides its words."""

    number: int  # of the message
    text: str
    keys: str = ""
    marks: str = ""  # words that only add to its length


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
        marks = (len(passage.marks.split()) for passage in passages)
        sizes = [len(text) + len(key) + n for text, key, n in zip(texts, keys, marks, strict=True)]
        mean = max(1, sum(sizes)) / max(1, len(sizes))
        self._lengths = [1 - _LENGTH + _LENGTH * size / mean for size in sizes]

    def find_messages_with_all(
        self, queries: Sequence[Sequence[str]], limit: int
    ) -> tuple[tuple[int, ...], ...]:
        """For each query, given by its terms, the messages among the best that hold all of them.

        The best are so many as the limit says of all that hold any term, ranked by BM25. Where no
        message holds all, those count that hold all but one: a long line's last word may be cut.
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
        places = _Places(self._numbers, self._lengths, len(phrases))
        root = _build_tree(list(phrases), self._known)
        for place, (text, key) in enumerate(zip(self._texts, self._keys, strict=True)):
            places.add(root, place, text, key)
        return tuple(places.best(terms, limit) for terms in asked)


class _Places:
    """Where phrases stand in some passages, and what a passage that holds one scores by it."""

    def __init__(self, numbers: Sequence[int], lengths: Sequence[float], phrases: int) -> None:
        self._numbers = numbers
        self._lengths = lengths  # of the passages, beside their mean
        self._places_of: dict[int, list[int]] = {}  # by message
        for place, number in enumerate(numbers):
            self._places_of.setdefault(number, []).append(place)
        self._counts: list[dict[int, float]] = [{} for _ in range(phrases)]  # by passage
        self._messages: dict[int, frozenset[int]] = {}
        self._scores: dict[int, dict[int, float]] = {}
        self._highest: dict[int, float] = {}

    def add(self, root: _Node, place: int, text: Sequence[str], keys: Sequence[str]) -> None:
        """Note every phrase that stands in a passage."""
        self._follow(root, text, place, 1.0)
        if keys:
            self._follow(root, keys, place, _OF_KEYS)

    def best(self, terms: Sequence[_Term], limit: int) -> tuple[int, ...]:
        """The messages that hold all the terms, without those that too many others outrank."""
        held = sorted((self._messages_with(term) for term in terms), key=len)
        found = held[0].intersection(*held[1:]) if held else frozenset[int]()
        if not found and len(held) > 1:
            found = _in_all_but_one(held)
        if not found or (len(terms) == 1 and len(found) <= limit):
            return tuple(sorted(found))
        # The rarest first: whoever holds none of them has little to score with.
        phrases = sorted({p for term in terms for p in term}, key=lambda p: len(self._counts[p]))
        own = (place for number in found for place in self._places_of[number])
        scores = self._best_by_message(own, phrases)
        lowest = sorted(scores.values(), reverse=True)[:limit][-1] - _TINY
        for place, score in self._find_rivals(phrases, lowest, found).items():
            number = self._numbers[place]
            scores[number] = max(score, scores.get(number, 0.0))
        ranked = sorted(scores, key=lambda number: (-round(scores[number], 9), -number))
        return tuple(number for number in ranked[:limit] if number in found)

    def _find_rivals(
        self, phrases: Sequence[int], lowest: float, found: frozenset[int]
    ) -> dict[int, float]:
        """The passages of other messages that score as much, and what they score."""
        rivals: dict[int, float] = {}
        ahead = sum(map(self._highest_of, phrases))
        for phrase in phrases:
            scores, may_begin = self._scores_of(phrase), ahead >= lowest
            ahead -= self._highest_of(phrase)
            if may_begin:
                for place, score in scores.items():
                    if self._numbers[place] not in found:
                        rivals[place] = rivals.get(place, 0.0) + score
            else:
                rivals = {
                    place: score
                    for place, before in rivals.items()
                    if (score := before + scores.get(place, 0.0)) + ahead >= lowest
                }
        return rivals

    def _best_by_message(self, places: Iterable[int], phrases: Sequence[int]) -> dict[int, float]:
        """What the best of some passages scores, by message."""
        scored = [self._scores_of(phrase) for phrase in phrases]
        best: dict[int, float] = {}
        for place in places:
            score = sum([scores.get(place, 0.0) for scores in scored])
            number = self._numbers[place]
            best[number] = max(score, best.get(number, 0.0))
        return best

    def _messages_with(self, term: _Term) -> frozenset[int]:
        held = [self._messages_of(phrase) for phrase in term]
        return held[0] if len(held) == 1 else held[0].union(*held[1:])

    def _messages_of(self, phrase: int) -> frozenset[int]:
        if phrase not in self._messages:
            self._messages[phrase] = frozenset(map(self._numbers.__getitem__, self._counts[phrase]))
        return self._messages[phrase]

    def _highest_of(self, phrase: int) -> float:
        if phrase not in self._highest:
            self._highest[phrase] = max(self._scores_of(phrase).values(), default=0.0)
        return self._highest[phrase]

    def _scores_of(self, phrase: int) -> dict[int, float]:
        if phrase not in self._scores:
            counts, number = self._counts[phrase], len(self._numbers)
            rarity = log((number - len(counts) + 0.5) / (len(counts) + 0.5))
            weight = max(rarity, _TINY) * (_SATURATION + 1)
            self._scores[phrase] = {
                place: weight * count / (count + _SATURATION * self._lengths[place])
                for place, count in counts.items()
            }
        return self._scores[phrase]

    def _follow(self, root: _Node, words: Sequence[str], place: int, worth: float) -> None:
        first, counts, last = root.following, self._counts, len(words)
        for start in compress(range(last), map(first.__contains__, words)):
            node: _Node | None = first[words[start]]
            following = start
            while node is not None:
                for phrase in node.ends:
                    count = counts[phrase]
                    count[place] = count.get(place, 0.0) + worth
                following += 1
                node = node.following.get(words[following]) if following < last else None


def _in_all_but_one(held: Sequence[frozenset[int]]) -> frozenset[int]:
    """What is missing in at most one of some sets, which are sorted by size."""
    likely = held[0] | held[1]  # whatever is in neither is missing in two
    return frozenset(n for n in likely if sum(n not in numbers for numbers in held) == 1)


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
