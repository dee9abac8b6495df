"""The newest words of a session that no digest holds, for a window that somebody else emptied."""

from __future__ import annotations

from collections.abc import Iterable

from mcp_compaction.core.excerpts.render import excerpts_block
from mcp_compaction.core.limits import SHORTEST_PREVIEW
from mcp_compaction.core.log.conversation import conversation_of
from mcp_compaction.core.log.pinned import PINNED_LABEL
from mcp_compaction.core.text.words import shorten
from mcp_compaction.model import Excerpt, Message


def newest_block(messages: Iterable[Message], limit: int) -> str:
    """What users and agents said in these messages, at most so many characters; empty without any.

    The newest come first into the room and stand last; of one that does not fit, its beginning.
    """
    chosen: list[Excerpt] = []
    for message in sorted(conversation_of(messages), key=lambda one: one.seq, reverse=True):
        if not _is_said(message):
            continue
        whole = [_quote(message, message.text), *chosen]
        if len(excerpts_block(whole)) <= limit:
            chosen = whole
            continue
        room = limit - len(excerpts_block([_quote(message, ""), *chosen]))
        if room < SHORTEST_PREVIEW:
            break
        chosen.insert(0, _quote(message, shorten(message.text, room - len(" …"))))
    return excerpts_block(chosen)


def _is_said(message: Message) -> bool:
    """Whether a user or an agent said it; hosts and tools write in the user's role too."""
    is_users = message.role == "user" and message.via != "tool"
    if PINNED_LABEL in message.text:  # some hosts put what a hook gave beside the user's words
        return False
    return (is_users or message.role == "assistant") and bool(message.text.strip())


def _quote(message: Message, text: str) -> Excerpt:
    return Excerpt(seq=message.seq, by="wanted", role=message.role, pieces=(text,))
