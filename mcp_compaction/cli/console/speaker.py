"""Whom a command speaks for: the user at a terminal, who can be asked, else the agent that may have
run it."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from mcp_compaction.cli.console.invocation import Invocation
from mcp_compaction.cli.console.reading import read_answer
from mcp_compaction.errors import InputError, NeedsUser
from mcp_compaction.model import Author

# An agent with a shell sets variables and writes files as the user does: neither can vouch for one.
WHO = """\
Speaks for the user only at a terminal. Without one it speaks for the agent, who may pin for one
session and release its own pins; no setting or variable changes that."""


def speaker_of(call: Invocation) -> Author:
    """The author of a command: the user at a terminal, else an agent."""
    return "user" if call.stdin.isatty() else "agent"


@contextmanager
def refuse_for_agents(what: str) -> Generator[None]:
    """Refuse, in words for a person, an act inside the block that only the user may do."""
    try:
        yield
    except NeedsUser:
        raise refusal_of(what) from None


def refusal_of(what: str) -> NeedsUser:
    """The refusal of an act that no agent may do."""
    return NeedsUser(f"{what}; only the user can do this: run it in a terminal.")


def is_confirmed(call: Invocation, what: str, question: str) -> bool:
    """Whether the user wants what is not undone, by --yes or by the answer to a question; nobody
    else may."""
    if speaker_of(call) != "user":
        raise refusal_of(what)
    if not call.args.yes and not call.screen.is_terminal:
        raise InputError(f"{what}; pass --yes to do it.")
    return call.args.yes or says_yes(call, question)


def says_yes(call: Invocation, question: str) -> bool:
    """Whether the person types yes."""
    call.screen.say(question)
    call.screen.flush()
    return read_answer(call.stdin).lower() == "yes"
