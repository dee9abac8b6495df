"""Keeps what was read in a text: one compaction asks the same of each message several times."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import TypeVar

Found = TypeVar("Found")

_MOST_TEXTS, _MOST_CHARS = 32_768, 2_000  # the messages of a very large window
_MOST_LONG_TEXTS, _LONGEST = 1_024, 16_000  # a server holds on to them: megabytes of text


def read_once(read: Callable[[str], Found]) -> Callable[[str], Found]:
    """A pure function of a text that remembers what it found, of long texts in the last few."""
    remembered = lru_cache(maxsize=_MOST_TEXTS)(read)
    of_long_texts = lru_cache(maxsize=_MOST_LONG_TEXTS)(read)

    @wraps(read)
    def reading(text: str) -> Found:
        if len(text) <= _MOST_CHARS:
            return remembered(text)
        return of_long_texts(text) if len(text) <= _LONGEST else read(text)

    return reading
