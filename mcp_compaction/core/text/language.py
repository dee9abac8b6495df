"""Tells which language a text is in, by its function words and its letters."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache, lru_cache

from mcp_compaction.core.limits import LONGEST_SENTENCE
from mcp_compaction.core.text.patterns import pattern_of
from mcp_compaction.lexicon.languages import read_heads

ENGLISH = "en"
_WORD = pattern_of(r"[^\W\d_]+")
_ODD_CASES = str.maketrans("İıſ", "iis")  # i and s to re.I, not to lower()

Votes = Counter[str]  # by the code of the language


def words_of(text: str) -> frozenset[str]:
    """The different words of a text in lower case, as the signs of a lexicon name them."""
    return _read_words(text) if len(text) <= LONGEST_SENTENCE else _read_words.__wrapped__(text)


@lru_cache(maxsize=2_048)  # each kind of sign asks for the words of the same sentences
def _read_words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.translate(_ODD_CASES).lower()))


def languages_of(text: str) -> tuple[str, ...]:
    """The languages that a text may be in; none, where it is in no language that is known."""
    return most_voted(count_votes(text))


def main_language(text: str) -> str:
    """The one language that a text is read in: the first that it may be in, or English."""
    return next(iter(languages_of(text)), ENGLISH)


def count_votes(text: str) -> Votes:
    """How many words and letters of a text speak for each language."""
    voters = _voters()
    votes = Counter(code for word in voters.keys() & words_of(text) for code in voters[word])
    for code, letters in () if text.isascii() else _letters():
        votes.update({code: len(found)} if (found := letters.findall(text)) else {})
    return votes


def most_voted(votes: Votes) -> tuple[str, ...]:
    """The languages with the most votes: several, where they have the same number."""
    most = max(votes.values(), default=0)
    first = [code for code, number in votes.items() if number == most]
    in_order = [head.language for head in read_heads()]
    return tuple(sorted(first, key=in_order.index))


@cache
def _voters() -> dict[str, tuple[str, ...]]:
    """The languages that each function word speaks for."""
    found: dict[str, tuple[str, ...]] = {}
    for head in read_heads():
        for word in {*head.function_words, *head.typical_words}:
            found[word] = (*found.get(word, ()), head.language)
    return found


@cache
def _letters() -> tuple[tuple[str, re.Pattern[str]], ...]:
    letters = {head.language: head.letters for head in read_heads() if head.letters}
    return tuple((code, re.compile(f"[{some}]", re.I)) for code, some in letters.items())
