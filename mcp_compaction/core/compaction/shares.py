"""Shares out a goal: to the newest steps, names and the index; words of users come first."""

from __future__ import annotations

from mcp_compaction.core.log.content import is_talk
from mcp_compaction.core.log.conversation import conversation_of
from mcp_compaction.core.window.fill import Fill
from mcp_compaction.model import Session, Value

# Percent of the goal.
_MOST_TAIL, _LEAST_TAIL = 60, 15
_TAIL_OF_TALK = 12
_MOST_INDEX, _LEAST_INDEX = 40, 20
_NAMES = 15
_SMALLEST_INDEX = 30  # tokens
LEAST_FOR_DIGEST = 60  # tokens, with its label; a smaller one tells little but what must stay
_DIGEST = 10  # what is left to it in any case
_MOST_NAMES = 4  # times the most tokens of an index, however large the goal is
_INDEX_FOR_NAMES = 3  # an index tells where and how as well, which takes three times the tokens


class RoomForTarget(Value):
    """The most tokens of an explicit target that each part may take."""

    tail: int  # of the newest steps
    index: int
    least_index: int  # what it may be shortened to, to make room for the newest steps


def share_out(session: Session, fill: Fill, target: int) -> RoomForTarget:
    """The room of each part; what users said, and what was kept of earlier messages, comes before
    the newest steps."""
    most, least, of_talk = (
        target * share // 100 for share in (_MOST_TAIL, _LEAST_TAIL, _TAIL_OF_TALK)
    )
    said = conversation_of(session.messages)
    requests = [message.tokens for message in said if message.is_request]
    kept = sum(requests[1:]) + dict(fill.parts)["promoted"]
    # Who says much also sets rules and tasks, which make digests larger. Where people only talk,
    # what was said long ago is worth as much as what was said last.
    tail = of_talk if is_talk(said) else max(least, most - 3 * kept)
    index = target * _MOST_INDEX // 100
    shortest = index if 2 * tail < most else target * _LEAST_INDEX // 100
    return RoomForTarget(tail=tail, index=index, least_index=shortest)


def room_for_names(goal: int, index_most: int) -> int:
    """The most tokens of a goal that names may take: with the room of the index, too, where that
    would hold little more than its label."""
    index = goal * (_LEAST_INDEX - _NAMES) // 100
    share = _LEAST_INDEX if index < _SMALLEST_INDEX else _NAMES
    return min(_MOST_NAMES * index_most, goal * share // 100)


def room_beside_names(goal: int, names: int) -> int:
    """The most tokens that are left for the index where names take so many: both together a fifth
    of the goal, or more where there are few names and the index has to tell them."""
    together = goal * _LEAST_INDEX // 100 - names
    return max(0, together, goal * _MOST_INDEX // 100 - _INDEX_FOR_NAMES * names)


def room_for_records(goal: int, digests: int, digest_most: int) -> int:
    """The tokens that the newest steps leave to digests, names and the index."""
    least = min(digest_most, goal * _DIGEST // 100)
    return max(digests, least) + goal * _LEAST_INDEX // 100
