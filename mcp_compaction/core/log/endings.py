"""Tells how calls ended by their results: done, refused, interrupted, failed, not yet known."""

from __future__ import annotations

import re
from functools import cache
from typing import Literal

from mcp_compaction.core.log.failures import is_failure
from mcp_compaction.core.text.patterns import pattern_of
from mcp_compaction.lexicon.tools import Ending, EndingSign, known_endings
from mcp_compaction.model import ToolResult

CallEnding = Ending | Literal["done"]

_OPENING = 5_000  # characters; a host repeats a whole command before it says that it timed out
_CLOSING = 4_000
_TRACE = pattern_of(r"^(?:Traceback \(most recent call last\)|\S+: (?:command )?not found$)", re.M)
_TRACE_SIGNS = ("Traceback (most recent call last)", "not found")


def ending_of_call(result: ToolResult) -> CallEnding:
    """How a call ended, by what its result says."""
    opening = result.text[:_OPENING].lstrip()
    if _any_sign().match(opening):
        return next(sign.kind for sign in known_endings() if is_said(sign, opening))
    return "failed" if is_failure(result) or _ends_in_trace(result.text) else "done"


def _ends_in_trace(text: str) -> bool:
    end = text[-_CLOSING:]
    return any(sign in end for sign in _TRACE_SIGNS) and bool(_TRACE.search(end))


def is_said(sign: EndingSign, opening: str) -> bool:
    """Whether a result that opens so says that its call ended in this way."""
    if sign.begins:
        return opening.startswith(sign.begins)
    return bool(_pattern(sign.says).match(opening))


@cache
def _pattern(source: str) -> re.Pattern[str]:
    return re.compile(source, re.S)


@cache
def _any_sign() -> re.Pattern[str]:
    """What any of the known endings begins with: most results match none of them."""
    return re.compile(
        "|".join(f"(?:{sign.says or re.escape(sign.begins)})" for sign in known_endings()), re.S
    )
