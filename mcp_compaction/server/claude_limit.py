"""Ends a loop of compactions in Claude Code: after two that freed hardly anything one says why."""

from __future__ import annotations

from typing import NamedTuple

from mcp_compaction import compactor
from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.core.compaction.gate import explain_stuck, tokens_since
from mcp_compaction.model import SessionInfo

_LEAST_FREED = 10  # percent of the host's limit
_OVERFULL = 98  # percent of the window, from which on a little is better than nothing
_WAYS = (
    "To make room: switch off MCP servers and tools that you do not need (/context says what each "
    "takes), release pins that are done, raise the limit with /autocompact, or go on in a new chat "
    "with: continue {}"
)


class Stuck(NamedTuple):
    """A chat that compactions no longer make smaller."""

    text: str  # what fills it, and what its user can do
    is_overfull: bool  # its next request may be refused for its size


async def find_stuck(work: Workspace, info: SessionInfo, limit: int | None) -> Stuck | None:
    """What its user is told of a chat whose last two compactions freed hardly anything; None where
    another may help, since as much was said meanwhile."""
    session = await work.load(info)
    policy, fill = work.policy_for(session), work.fill_of(session)
    full = limit or fill.window
    last_two = (await compactor.receipts(work, info))[-2:]
    # What was over the limit is no room that the chat has won.
    gains = [min(one.before, full) - one.after for one in last_two if one.kind == "compress"]
    changes = [*gains, tokens_since(session, policy, fill)]
    if len(gains) < 2 or 100 * max(changes) >= full * _LEAST_FREED:
        return None
    refs = " and ".join(one.ref for one in last_two)
    points = " and ".join(f"{100 * gain / full:.1f} %" for gain in gains)
    held = explain_stuck(session, policy, fill)
    text = f"{refs} freed {points} of the limit. {held}. {_WAYS.format(info.name)}"
    return Stuck(text, fill.percent >= _OVERFULL)
