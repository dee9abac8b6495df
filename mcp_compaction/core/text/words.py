"""Folds and shortens texts, and tells which of their words say something."""

from __future__ import annotations

from functools import lru_cache

from mcp_compaction.core.text.patterns import pattern_of
from mcp_compaction.core.text.reading import read_once

WORD = pattern_of(r"\d+(?:[-:/.,]\d+)+|\w+")
_STOP = frozenset(
    WORD.findall(
        """a about after again all also am an and any are as at be because been before being but by
        can could did do does doing down for from further had has have having he her here hers him
        his how i if in into is it its just me more most my no nor not now of off on once only or
        other our out over own s same she should so some such t than that the their them then there
        these they this those through to too under until up very was we were what when where which
        while who whom why will with you your d ll m re ve don"""
    )
)


def fold(text: str) -> str:
    """A text as it is compared: lower case, single spaces, no end mark."""
    return one_line(text.lower()).strip(" .!\"'")


def one_line(text: str) -> str:
    """A text on one line, with single spaces."""
    return " ".join(text.split())


def shorten(text: str, most: int) -> str:
    """A text on one line of so many characters at most, cut at a word's end."""
    line = one_line(text)
    return line if len(line) <= most else line[:most].rsplit(" ", 1)[0] + " …"


def first_line(text: str, most: int = 100) -> str:
    """The first line of a text, shortened."""
    return shorten(text.strip().split("\n", 1)[0], most)


@read_once
def telling_words(text: str) -> tuple[str, ...]:
    """The different words of a text that say something, in alphabetical order."""
    told = set(map(meaning_of, set(WORD.findall(text.lower()))))
    return tuple(sorted(told - {""}))


@lru_cache(maxsize=65_536)
def meaning_of(word: str) -> str:
    """What a word stands for where it says something, else nothing."""
    return _singular(word) if _is_telling(word) else ""


def _is_telling(word: str) -> bool:
    return word not in _STOP if len(word) > 1 else word.isdigit()


def _singular(word: str) -> str:
    return word[:-1] if len(word) > 3 and word[-1] == "s" and word[-2] != "s" else word
