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
_TRACE = pattern_of(r"^(?:Traceback \(most recent call last\)|\S+: (?:command )?not found$)", re.M)


def ending_of_call(result: ToolResult) -> CallEnding:
    """How a call ended, by what its result says."""
    opening = result.text[:_OPENING].lstrip()
    for sign in known_endings():
        if is_said(sign, opening):
            return sign.kind
    return "failed" if is_failure(result) or _TRACE.search(result.text[-4_000:]) else "done"


def is_said(sign: EndingSign, opening: str) -> bool:
    """Whether a result that opens so says that its call ended in this way."""
    if sign.begins:
        return opening.startswith(sign.begins)
    return bool(_pattern(sign.says).match(opening))


@cache
def _pattern(source: str) -> re.Pattern[str]:
    return re.compile(source, re.S)
