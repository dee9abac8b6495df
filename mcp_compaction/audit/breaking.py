"""Finds calls that may have broken a rule which a compaction had lost.

What a rule forbids is read as for the checks of pins: a call counts where the check that would have
been offered for the rule stops it, and the user has not named the thing since.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, cast

from mcp_compaction.audit.results import Broken
from mcp_compaction.checks.judge import Rule, judge
from mcp_compaction.checks.match import Call
from mcp_compaction.checks.offer import offer_checks
from mcp_compaction.core.log.tool_calls import action_of
from mcp_compaction.core.text.words import one_line
from mcp_compaction.formats import IncomingMessage, read
from mcp_compaction.model import Text, ToolCall

_LONGEST_CALL = 300


class _Made(NamedTuple):
    """A call, where it stands, and what the user had said by then."""

    where: str
    call: ToolCall
    said: str


def find_broken(
    rules: Iterable[tuple[str, str]], later: Sequence[IncomingMessage], folder: str = ""
) -> Iterator[Broken]:
    """The first call against each rule, where the chat worked in a folder; `rules`: the words, and
    the id of the message."""
    made = list(_calls_in(later))
    for text, said_in in rules:
        rule = Rule(0, text, tuple(c for c in offer_checks(text) if c.verdict == "deny"))
        broken = next((one for one in made if _breaks(rule, one, folder)), None)
        if broken is not None:
            target = one_line(action_of(broken.call).target)[:_LONGEST_CALL]
            yield Broken(rule=text, said_in=said_in, call=target, called_in=broken.where)


def _calls_in(messages: Sequence[IncomingMessage]) -> Iterator[_Made]:
    said = ""
    for message in messages:
        role, parts = read(message.shape, message.raw)
        for part in parts:
            if isinstance(part, ToolCall):
                yield _Made(message.host_id or "", part, said)
            elif isinstance(part, Text) and role == "user":
                said = f"{said}\n{part.text.casefold()}"


def _breaks(rule: Rule, made: _Made, folder: str) -> bool:
    given = cast("dict[str, Any]", made.call.arguments)
    held = judge(Call(made.call.name, given, folder, folder), [rule])
    return any(one.verdict == "deny" and not _names(made.said, one.check.glob) for one in held)


def _names(said: str, glob: str) -> bool:
    """Whether somebody has spoken of what a check is about."""
    return glob.casefold().strip("*/") in said
