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
_TRACE = "Traceback (most recent call last)"
_RUNS_OTHERS = (  # a shell, by its name or its script's, or sudo
    r"(?:-?(?:\S*/)?(?:(?:ba|z|da|k|a)?sh|sudo)|\S+\.(?:ba|z)?sh|\(eval\))(?::\d+)?"
)
_NOT_FOUND = pattern_of(  # what a shell says of a program, and Python of a module to run
    rf"^(?:Error: )?{_RUNS_OTHERS}: (?:(?:line )?\d+: )?\S+: (?:command )?not found$"
    r"|^(?:Error: )?\S+: (?:line \d+: \S+: )?command not found(?:: \S+)?$"
    r"|^(?:\S+: )?\S*python[\d.]*: No module named \S+$",
    re.M,
)
_NOT_FOUND_SIGNS = ("not found", ": No module named")


def ending_of_call(result: ToolResult) -> CallEnding:
    """How a call ended, by what its result says."""
    opening = result.text[:_OPENING].lstrip()
    if _any_sign().match(opening):
        return next(sign.kind for sign in known_endings() if is_said(sign, opening))
    has_failed = is_failure(result) or _ends_in_trace(result.text) or has_not_begun(result)
    return "failed" if has_failed else "done"


def has_not_begun(result: ToolResult) -> bool:
    """Whether a result says that the program to run was not found."""
    end = result.text[-_CLOSING:]
    return any(sign in end for sign in _NOT_FOUND_SIGNS) and bool(_NOT_FOUND.search(end))


def _ends_in_trace(text: str) -> bool:
    return f"\n{_TRACE}" in f"\n{text[-_CLOSING:]}"


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
