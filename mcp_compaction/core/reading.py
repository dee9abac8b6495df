"""Keeps what was read in a text, or of the last windows: one compaction asks the same often."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache, wraps
from operator import is_
from typing import TypeVar

from mcp_compaction.core.limits import LONGEST_ANSWER, LONGEST_TEXT, MOST_TRIED

Found = TypeVar("Found")
One = TypeVar("One")


def read_once(read: Callable[[str], Found]) -> Callable[[str], Found]:
    """A pure function of a text that remembers what it found, of long texts in the last few."""
    remembered = lru_cache(maxsize=32_768)(read)
    of_long_texts = lru_cache(maxsize=1_024)(read)
    of_huge_texts = lru_cache(maxsize=4)(read)

    @wraps(read)
    def reading(text: str) -> Found:
        if len(text) <= LONGEST_ANSWER:
            return remembered(text)
        return of_long_texts(text) if len(text) <= LONGEST_TEXT else of_huge_texts(text)

    return reading


def read_recent_once(read: Callable[[tuple[One, ...]], Found]) -> Callable[[Iterable[One]], Found]:
    """A pure function of messages that remembers what it found in the last few it was given:
    windows, spans and what comes behind them; a server holds on to them."""
    recent: tuple[tuple[tuple[One, ...], Found], ...] = ()

    @wraps(read)
    def reading(messages: Iterable[One]) -> Found:
        nonlocal recent
        given = tuple(messages)
        known = next((one for one in recent if _are_same(one[0], given)), None)
        newest = known or (given, read(given))
        recent = (newest, *(one for one in recent if one is not newest))[:MOST_TRIED]
        return newest[1]

    return reading


def _are_same(some: tuple[object, ...], others: tuple[object, ...]) -> bool:
    """Whether these are the very same messages: to compare their words would take far longer."""
    return len(some) == len(others) and all(map(is_, some, others))
