"""Keeps what was read in a text: one compaction asks the same of each message several times."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import TypeVar

Found = TypeVar("Found")

_MOST_TEXTS = 32_768  # the messages of a very large window
_MOST_CHARS = 2_000  # longer texts are few, and the cache would hold on to them


def read_once(read: Callable[[str], Found]) -> Callable[[str], Found]:
    """A pure function of a text that remembers what it found in texts of ordinary length."""
    remembered = lru_cache(maxsize=_MOST_TEXTS)(read)

    @wraps(read)
    def reading(text: str) -> Found:
        return remembered(text) if len(text) <= _MOST_CHARS else read(text)

    return reading
