"""Shares out an explicit target: to the newest steps and the index; words of users come first."""

from __future__ import annotations

from mcp_compaction.core.log.content import is_talk
from mcp_compaction.core.log.conversation import conversation_of
from mcp_compaction.core.window.fill import Fill
from mcp_compaction.model import Session, Value

# Percent of the target.
_MOST_TAIL, _LEAST_TAIL = 60, 12
_MOST_INDEX, _LEAST_INDEX = 40, 20


class RoomForTarget(Value):
    """The most tokens of an explicit target that each part may take."""

    tail: int  # of the newest steps
    index: int
    least_index: int  # what it may be shortened to, to make room for the newest steps


def share_out(session: Session, fill: Fill, target: int) -> RoomForTarget:
    """The room of each part; what users said, and what was kept of earlier messages, comes before
    the newest steps."""
    most, least = target * _MOST_TAIL // 100, target * _LEAST_TAIL // 100
    said = conversation_of(session.messages)
    requests = [message.tokens for message in said if message.is_request]
    kept = sum(requests[1:]) + dict(fill.parts)["promoted"]
    # Who says much also sets rules and tasks, which make digests larger. Where people only talk,
    # what was said long ago is worth as much as what was said last.
    tail = least if is_talk(said) else max(least, most - 3 * kept)
    index = target * _MOST_INDEX // 100
    shortest = index if 2 * tail < most else target * _LEAST_INDEX // 100
    return RoomForTarget(tail=tail, index=index, least_index=shortest)
