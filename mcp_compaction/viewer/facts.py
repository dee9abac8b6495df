"""What the page shows, as plain data: nothing here is changed by looking at it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from mcp_compaction import compactor
from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.core.compaction.ladder import shown_as
from mcp_compaction.core.compaction.receipt import receipt_text
from mcp_compaction.core.digest.render import words_of_item
from mcp_compaction.core.log.content import calls_by_id, texts_by_speaker
from mcp_compaction.core.text.words import one_line
from mcp_compaction.errors import InputError
from mcp_compaction.model import Message, Receipt, SessionInfo

MOST_SESSIONS = 500
PAGE_OF_MESSAGES = 500
_BEGIN = 200  # characters of a message in a list
_MOST_POINTS = 300  # of a curve without compactions

Facts = dict[str, Any]


class _Moment(NamedTuple):
    at: datetime
    tokens: int
    compaction: str = ""


async def list_sessions(work: Workspace) -> list[Facts]:
    """The sessions of all projects, the newest first."""
    return [_session(info) for info in await compactor.list_sessions(work, None, MOST_SESSIONS)]


def _session(info: SessionInfo) -> Facts:
    return {
        "id": info.id,
        "name": info.name,
        "project": info.project,
        "messages": info.messages,
        "updated": info.updated.isoformat(),
        "host": info.host or "",
        "model": info.traits.model or "",
    }


async def find_session(work: Workspace, number: int) -> SessionInfo:
    """The session of that id; LookupError where there is none."""
    every = await compactor.list_sessions(work, None, MOST_SESSIONS)
    found = next((info for info in every if info.id == number), None)
    if found is None:
        raise LookupError(number)
    return found


async def describe_session(work: Workspace, info: SessionInfo) -> Facts:
    """All of one session but its messages."""
    session = await work.load(info)
    fill = (await work.read_window(info)).fill
    receipts = await compactor.receipts(work, info)
    now = _Moment(info.updated, fill.view_tokens if receipts else fill.tokens)
    curve = _curve_of(session.messages, receipts, now)
    return {
        **_session(info),
        "fill": {
            "tokens": fill.tokens,
            "percent": round(fill.percent, 1),
            "window": fill.window,
            "view": fill.view_tokens,
        },
        "curve": [[one.at.isoformat(), one.tokens, one.compaction] for one in curve],
        "pins": [
            {
                "ref": pin.ref,
                "kind": pin.kind,
                "by": pin.author,
                "scope": pin.scope,
                "at": pin.at.isoformat(),
                "text": pin.text,
            }
            for pin in await work.pins(info)
        ],
        "digests": [
            {
                "ref": digest.ref,
                "span": f"m{digest.first}..m{digest.last}",
                "author": digest.author,
                "sections": [
                    [name, [{"text": words_of_item(one), "refs": list(one.refs)} for one in items]]
                    for name, items in digest.sections
                ],
            }
            for digest in reversed(await work.store.digests(info.id))
        ],
        "receipts": [
            {
                "ref": receipt.ref,
                "kind": receipt.kind,
                "at": receipt.at.isoformat(),
                "before": receipt.before,
                "after": receipt.after,
                "freed": [[shown_as(rung), tokens] for rung, tokens in receipt.freed if tokens > 0],
                "text": receipt_text(receipt),
            }
            for receipt in reversed(receipts)
        ],
    }


async def list_messages(work: Workspace, info: SessionInfo, after: int) -> list[Facts]:
    """A page of the messages behind a number, each by its beginning."""
    page = await read_messages(work, info, after)
    return begins_of(page)


async def read_messages(work: Workspace, info: SessionInfo, after: int) -> list[Message]:
    """The messages behind a number, a page of them; those that were forgotten are not there."""
    try:
        found = await compactor.originals(work, info, f"m{after + 1}..m{after + PAGE_OF_MESSAGES}")
    except InputError:
        return []
    return [one.message for one in found]


def whole_text(message: Message) -> str:
    """All that a message says, with whose words it is where more than one speaks."""
    said = texts_by_speaker(message, {})
    return "\n".join(f"{who}:\n{text}" if len(said) > 1 else text for who, text in said)


def begins_of(messages: Sequence[Message]) -> list[Facts]:
    """Messages by their beginnings, each with whose words it holds."""
    begins: list[Facts] = []
    calls = calls_by_id(messages)
    for one in messages:
        role = ", ".join(dict(texts_by_speaker(one, calls)))
        text = one_line(whole_text(one)[: 4 * _BEGIN])
        shown = text if len(text) <= _BEGIN else f"{text[:_BEGIN]}…"
        begins.append({"ref": one.ref, "seq": one.seq, "role": role, "text": shown})
    return begins


def _curve_of(
    messages: Sequence[Message], receipts: Sequence[Receipt], now: _Moment
) -> list[_Moment]:
    """The window's size as messages came and at each compaction; of what was compacted only the
    sizes before and after are told."""
    curve = [_Moment(messages[0].at or now.at, 0)] if messages else []
    for one in receipts:
        curve += [_Moment(one.at, one.before), _Moment(one.at, one.after, one.ref)]
    if not receipts:
        for message in messages:
            curve.append(_Moment(message.at or curve[-1].at, curve[-1].tokens + message.tokens))
    step = 1 if receipts else max(1, len(curve) // _MOST_POINTS)
    return [*curve[::step], now]
