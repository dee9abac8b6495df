"""Lists what a text is found by besides its words, and the ways a term of a query is looked up."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from enum import IntEnum, auto
from functools import lru_cache
from typing import NamedTuple

from mcp_compaction.core.text.patterns import pattern_of

# Scripts that write no spaces: a tokenizer takes a whole clause for one word.
_UNSPACED = (
    r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    r"\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
)
_IS_UNSPACED = pattern_of(f"[{_UNSPACED}]")
_RUN = pattern_of(rf"[{_UNSPACED}]+|[^\W{_UNSPACED}]+")
_WORD = pattern_of(r"\w+")
_CAMEL = pattern_of(r"(?<![A-Za-z0-9])[A-Za-z0-9]*?[a-z0-9][A-Z][A-Za-z0-9]*")
_BEND = pattern_of(r"[a-z0-9][A-Z]")
_HUMP = pattern_of(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_HASH = pattern_of(r"(?=[0-9]*[a-f])(?=[a-f]*[0-9])[0-9a-f]{6,}", re.I)
_GROUPED = pattern_of(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?:\.\d+)?(?![\d,]*\d)")
_JOINED = pattern_of(r"\w[-_./\\:#@=+]+\w|\w[+#]+$|[A-Za-z][0-9]|[0-9][A-Za-z]")


class Way(NamedTuple):
    """A phrase that a term is looked up by."""

    phrase: str
    is_start: bool = False  # whatever begins with it is meant as well


def keys_of(text: str) -> str:
    """The parts of joined names, numbers without commas, pairs of letters of unspaced scripts."""
    found: list[str] = []
    if _BEND.search(text):  # most texts hold nothing of the kind, and a glance costs little
        found += dict.fromkeys(" ".join(_HUMP.split(name)) for name in _CAMEL.findall(text))
    if "," in text:
        found += dict.fromkeys(number.replace(",", "") for number in _GROUPED.findall(text))
    if not text.isascii() and _IS_UNSPACED.search(text):
        for word in _WORD.findall(text):
            if _IS_UNSPACED.search(word):
                found += _letter_pairs(word)
    return " ".join(found)


def ways_of(term: str) -> tuple[Way, ...]:
    """The phrases that stand for a term; the index holds its text and its keys."""
    if _IS_UNSPACED.search(term):
        return _unspaced_ways(term)
    if _HASH.fullmatch(term):
        return (Way(term, is_start=True),)
    if _GROUPED.fullmatch(term):
        return (Way(term), Way(term.replace(",", "")))
    humps = [_HUMP.sub(" ", name) for name in _CAMEL.findall(term)]
    if humps and "".join(humps).replace(" ", "") == term:
        return (Way(term), Way(" ".join(humps)))
    return (Way(term),)


def is_name(term: str) -> bool:
    """Whether a term means one thing, letter by letter: a path, an id, a piece of code."""
    return bool(_JOINED.search(term) or _CAMEL.search(term) or _IS_UNSPACED.search(term))


def parts_of_term(term: str) -> tuple[str, ...]:
    """The parts of a term that found nothing as a whole."""
    if _IS_UNSPACED.search(term):
        runs = (run for run in _RUN.findall(term) if len(run) > 1)
        parts = [run[n : n + 2] for run in runs for n in range(len(run) - 1)]
    else:
        parts = [part for word in re.findall(r"[^\W_]+", term) for part in _HUMP.split(word)]
    unique = tuple(dict.fromkeys(part for part in parts if len(part) > 1))
    return () if unique == (term,) else unique


class Closeness(IntEnum):
    """How far a text holds a name."""

    NOT = 0
    PARTLY = auto()  # as part of a longer name
    RESPELLED = auto()  # half_open for halfOpen
    WHOLE = auto()


def closeness_of(name: str, text: str) -> Closeness:
    """Whether a text holds just that name, or something like it."""
    if _IS_UNSPACED.search(name):
        return Closeness.WHOLE if name in text else Closeness.NOT
    is_start = _HASH.fullmatch(name) is not None
    for level, pattern in _patterns_of(name, is_start):
        if re.search(pattern, text, re.I):
            return level
    return Closeness.NOT


@lru_cache(maxsize=64)
def _patterns_of(name: str, is_start: bool) -> tuple[tuple[Closeness, str], ...]:
    """What to look for, the closest first; a dot may end a sentence as well as join names."""
    plain = re.escape(name)
    after = "" if is_start else r"(?!\w|[-./:\\]\w)"
    words = [part for word in re.findall(r"[^\W_]+", name) for part in _HUMP.split(word)]
    respelled = r"[_-]?".join(map(re.escape, words))
    return (
        (Closeness.WHOLE, rf"(?<![\w./:\\-]){plain}{after}"),
        (Closeness.RESPELLED, rf"(?<![\w./:\\-]){respelled}{after}"),
        (Closeness.PARTLY, rf"(?<![\w-]){plain}(?![\w-])"),
        (Closeness.PARTLY, rf"(?<![\w-]){respelled}(?![\w-])"),
    )


def _letter_pairs(word: str) -> Iterator[str]:
    """Each pair of neighboring letters and the last one alone; other scripts as they are."""
    for run in _RUN.findall(word):
        if _IS_UNSPACED.search(run):
            yield from (run[n : n + 2] for n in range(len(run)))
        else:
            yield run


def _unspaced_ways(term: str) -> tuple[Way, ...]:
    pairs = [pair for word in _WORD.findall(term) for pair in _letter_pairs(word)]
    if not pairs:
        return (Way(term),)
    # What follows the term in a text is not known: its last letter may begin any pair.
    is_open = len(pairs[-1]) == 1 and _IS_UNSPACED.search(pairs[-1]) is not None
    if is_open and len(pairs) > 1 and pairs[-2].endswith(pairs[-1]):
        return (Way(" ".join(pairs[:-1])),)
    return (Way(" ".join(pairs), is_start=is_open),)


_WORD_OR_RUN = pattern_of(r"[a-z0-9]+|[^\W_a-z0-9]+")  # a name may stand in a script without spaces


class Passage(NamedTuple):
    """A piece of a message."""

    number: int  # of the message
    text: str


class PassageWords:
    """The words of some passages, in which queries are looked for."""

    def __init__(self, passages: Sequence[Passage]) -> None:
        """Read each passage once, for all queries that will come."""
        self._with: dict[str, set[int]] = defaultdict(set)  # the messages with each word
        self._texts: dict[int, list[str]] = defaultdict(list)
        for number, text in passages:
            words = _words_of(text)
            self._texts[number].append(f" {' '.join(words)} ")
            for word in set(words):
                self._with[word].add(number)

    def find_messages_with_all(
        self, queries: Sequence[Sequence[str]], limit: int
    ) -> tuple[tuple[int, ...], ...]:
        """For each query, given by its terms, the newest messages that hold all of them.

        A term with a word that stands nowhere does not count: the last of a long line may be cut.
        """
        held = {term: self._messages_with(term) for term in {t for query in queries for t in query}}
        return tuple(
            tuple(sorted(set[int].intersection(*found), reverse=True)[:limit]) if found else ()
            for found in ([held[term] for term in query if held[term]] for query in queries)
        )

    def _messages_with(self, term: str) -> set[int]:
        """The messages in which the words of a term stand side by side."""
        words = _words_of(term)
        found = set[int].intersection(*(self._with.get(word, set()) for word in words or [""]))
        phrase = f" {' '.join(words)} "
        return {n for n in found if any(phrase in text for text in self._texts[n])}


def _words_of(text: str) -> list[str]:
    return _WORD_OR_RUN.findall(text.lower())
