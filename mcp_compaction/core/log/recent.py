"""Keeps what was read of the last windows: one compaction asks the same of its messages often."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from operator import is_
from typing import TypeVar

from mcp_compaction.core.limits import MOST_TRIED
from mcp_compaction.model import Message

Found = TypeVar("Found")
Messages = tuple[Message, ...]


def read_recent_once(read: Callable[[Messages], Found]) -> Callable[[Iterable[Message]], Found]:
    """A pure function of messages that remembers what it found in the last few it was given:
    windows, spans and what comes behind them; a server holds on to them."""
    recent: tuple[tuple[Messages, Found], ...] = ()

    @wraps(read)
    def reading(messages: Iterable[Message]) -> Found:
        nonlocal recent
        given = tuple(messages)
        known = next((one for one in recent if _are_same(one[0], given)), None)
        newest = known or (given, read(given))
        recent = (newest, *(one for one in recent if one is not newest))[:MOST_TRIED]
        return newest[1]

    return reading


def _are_same(some: Messages, others: Messages) -> bool:
    """Whether these are the very same messages: to compare their words would take far longer."""
    return len(some) == len(others) and all(map(is_, some, others))
