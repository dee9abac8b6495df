"""Asks the person at the terminal before something is done that cannot be undone."""

from __future__ import annotations

from mcp_compaction.cli.console.invocation import Invocation
from mcp_compaction.cli.console.reading import read_answer


def is_person(call: Invocation) -> bool:
    """Whether somebody sits at the terminal who can be asked."""
    return call.stdin.isatty() and call.screen.is_terminal


def says_yes(call: Invocation, question: str) -> bool:
    """Whether the person types yes."""
    call.screen.say(question)
    call.screen.flush()
    return read_answer(call.stdin).lower() == "yes"
