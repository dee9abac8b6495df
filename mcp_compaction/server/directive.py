"""The directive for programs: which messages to keep, and what stands for the others."""

from __future__ import annotations

from mcp_compaction.core.digest.text import render_digest
from mcp_compaction.core.excerpts.render import excerpts_block
from mcp_compaction.core.log.pinned import pinned_block
from mcp_compaction.core.tokens import CountTokens
from mcp_compaction.core.window.render import index_in_view
from mcp_compaction.formats import FORMATS
from mcp_compaction.formats.jsontext import parse_object
from mcp_compaction.model import (
    Digested,
    JsonObject,
    JsonValue,
    Kept,
    Message,
    Receipt,
    Session,
    Shape,
    Text,
    Trimmed,
)


def directive(
    session: Session, receipt: Receipt, preserve_markers: bool, limit: int, count: CountTokens
) -> JsonObject:
    """The `_meta` of a compaction; `session` is the session as it is now, after it."""
    view = session.view
    messages = {message.seq: message for message in session.messages}
    digests = {digest.number: digest for digest in session.digests}
    shape = session.messages[-1].shape if session.messages else "anthropic"
    replace: list[JsonValue] = []
    extras = (index_in_view(session, limit, count), excerpts_block(view.promoted))
    for entry in (*view.head, *view.body, *view.since):
        if isinstance(entry, Digested):
            digest = digests[entry.digest]
            texts = [render_digest(digest, entry.thin), *(text for text in extras if text)]
            extras = ()
            stands: list[JsonValue] = [m for text in texts for m in _make_record(text, shape)]
            replace.append(_make_replacement(digest.first, digest.last, stands))
        elif isinstance(entry, Trimmed):
            replace.append(
                _make_replacement(entry.seq, entry.seq, _trim(messages[entry.seq], entry))
            )
    kept = [entry.seq for entry in (*view.head, *view.body) if isinstance(entry, Kept)]
    cut = {entry.seq for entry in view.since}
    since = [message.seq for message in session.messages if message.seq > view.upto]
    kept += [seq for seq in since if seq not in cut]
    return {
        "compaction_directive": True,
        "version": 1,
        "session": session.info.name,
        "compaction": receipt.ref,
        "strategy": receipt.strategy,
        "preserve_markers": preserve_markers,
        "keep": [f"m{seq}" for seq in kept],
        "replace": replace,
        "pinned": pinned_block(session.pins),
    }


def _make_replacement(first: int, last: int, stands: list[JsonValue]) -> JsonObject:
    return {"from": f"m{first}", "to": f"m{last}", "with": stands}


def _make_record(text: str, shape: Shape) -> list[JsonObject]:
    return FORMATS[shape].build("user", (Text(text=text),))


def _trim(message: Message, entry: Trimmed) -> list[JsonValue]:
    original = parse_object(message.raw, message.ref)
    return [*FORMATS[message.shape].keep(original, entry.cuts)]
