"""Folds and shortens texts, and tells which of their words say something."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from itertools import pairwise
from typing import cast

from mcp_compaction.core.text.language import ENGLISH
from mcp_compaction.core.text.patterns import pattern_of
from mcp_compaction.core.text.reading import read_once
from mcp_compaction.lexicon.languages import read_heads

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
_WITHOUT_SPACES = pattern_of(r"[぀-ヿ㐀-鿿가-힯]{2,}")


def fold(text: str) -> str:
    """A text as it is compared: lower case, single spaces, no end mark."""
    return " ".join(text.lower().split()).strip(" .!\"'")


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


@cache
def stop_words(language: str = ENGLISH) -> frozenset[str]:
    """The words of a language that tell nothing about what a text is about."""
    head = next((head for head in read_heads() if head.language == language), None)
    return frozenset((head.stop_words or head.function_words) if head else ())


@lru_cache(maxsize=65_536)
def stem(word: str, language: str = ENGLISH) -> str:
    """A lowercase word without its endings, so that its forms are one; itself, where no stemmer
    knows the language."""
    name = next((head.stemmer for head in read_heads() if head.language == language), "")
    if not name:
        return word
    # Nobody who compacts nothing pays for the tables of all stemmers. One stemmer keeps the word
    # it works on, so that each thread needs its own; making one costs nothing.
    from snowballstemmer import stemmer  # pyright: ignore

    return cast("str", stemmer(name).stemWord(word))  # pyright: ignore


def space_pairs(text: str) -> str:
    """A text whose scripts without spaces are written as pairs of signs, which stand for words."""
    return text if text.isascii() else _WITHOUT_SPACES.sub(_pairs_in, text)


def _pairs_in(match: re.Match[str]) -> str:
    return " ".join(["", *map("".join, pairwise(match[0])), ""])
