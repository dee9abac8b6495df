"""Shares out an explicit target: to the newest steps, the index, and what users said."""

from __future__ import annotations

from mcp_compaction.core.log.content import is_talk
from mcp_compaction.core.log.conversation import conversation_of
from mcp_compaction.core.window.fill import Fill
from mcp_compaction.model import Session, Value

# Percent of the target.
_TAIL_SHARE, _TAIL_SHARE_OF_TALK = 75, 12
_LEAST_FOR_WORDS, _MOST_FOR_WORDS = 10, 45  # of the share for the tail
_INDEX_SHARE = 40


class RoomForTarget(Value):
    """The most tokens of an explicit target that each part may take."""

    tail: int
    index: int
    words: int  # what users said and what was decided, kept word for word as excerpts


def share_out(session: Session, fill: Fill, target: int) -> RoomForTarget:
    """The room of each part; what users said, and what was kept of earlier messages, comes before
    the newest steps."""
    said = conversation_of(session.messages)
    index = target * _INDEX_SHARE // 100
    if is_talk(said):  # what was said long ago is worth as much as what was said last
        return RoomForTarget(tail=target * _TAIL_SHARE_OF_TALK // 100, index=index, words=0)
    requests = [message.tokens for message in said if message.is_request]
    kept = sum(requests[1:]) + dict(fill.parts)["promoted"]
    words = min(target * _LEAST_FOR_WORDS // 100 + kept, target * _MOST_FOR_WORDS // 100)
    return RoomForTarget(tail=target * _TAIL_SHARE // 100 - words, index=index, words=words)
