"""Errors by which providers say that a request does not fit into the window, as data."""

from __future__ import annotations

import re
from functools import cache

from mcp_compaction.lexicon import read_table
from mcp_compaction.model import Value


class Overflow(Value):
    """One way of saying that a request is too large; see the head of `overflow.toml`."""

    by: str
    pattern: str
    example: str
    limit: int | None = None
    near_miss: str


@cache
def known_overflows() -> tuple[Overflow, ...]:
    """The ways of saying that a request is too large; read once."""
    return tuple(map(Overflow.model_validate, read_table("overflow.toml")["overflow"]))


def is_overflow(text: str) -> bool:
    """Whether an error's text says that a request does not fit into the model's window."""
    return any(pattern.search(text) for pattern in _patterns())


def limit_in(text: str) -> int | None:
    """The tokens that such an error says are allowed; None where it does not say it."""
    found = (pattern.search(text) for pattern in _patterns() if "limit" in pattern.groupindex)
    told = next((match["limit"] for match in found if match and match["limit"]), None)
    return int(told.replace(",", "")) if told else None


@cache
def _patterns() -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(one.pattern, re.IGNORECASE | re.DOTALL) for one in known_overflows())
