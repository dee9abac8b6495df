"""Keeps what was read in a text: one compaction asks the same of each message several times."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import TypeVar

from mcp_compaction.core.limits import LONGEST_ANSWER, LONGEST_TEXT

Found = TypeVar("Found")


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
