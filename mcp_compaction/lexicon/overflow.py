"""Errors by which providers say that a request does not fit into the window, as data."""

from __future__ import annotations

import re
from functools import cache

from mcp_compaction.lexicon import read_source
from mcp_compaction.model import Value


class Overflow(Value):
    """One way of saying that a request is too large; see the head of `overflow.toml`."""

    by: str
    pattern: str
    example: str
    near_miss: str


@cache
def known_overflows() -> tuple[Overflow, ...]:
    """The ways of saying that a request is too large; read once."""
    import tomllib

    text = read_source("overflow.toml")
    return tuple(Overflow.model_validate(entry) for entry in tomllib.loads(text)["overflow"])


def is_overflow(text: str) -> bool:
    """Whether an error's text says that a request does not fit into the model's window."""
    return _any_pattern().search(text) is not None


@cache
def _any_pattern() -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{one.pattern})" for one in known_overflows()), re.IGNORECASE)
