"""Keeps what was read of the last windows: one compaction asks the same of its messages often."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from functools import wraps
from operator import is_
from typing import TypeVar

from mcp_compaction.model import Message

Found = TypeVar("Found")

_MOST = 4  # windows, spans and what comes behind them; a server holds on to what is in here


def read_recent_once(
    read: Callable[[tuple[Message, ...]], Found],
) -> Callable[[Iterable[Message]], Found]:
    """A pure function of messages that remembers what it found in the last few it was given."""
    recent: deque[tuple[tuple[Message, ...], Found]] = deque(maxlen=_MOST)

    @wraps(read)
    def reading(messages: Iterable[Message]) -> Found:
        given = tuple(messages)
        for known, found in tuple(recent):
            if len(known) == len(given) and all(map(is_, known, given)):
                return found
        found = read(given)
        recent.append((given, found))
        return found

    return reading
