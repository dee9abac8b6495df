"""Results of tools that a hook is told of: archived as a whole, and shown as previews."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, cast

from mcp_compaction import compactor
from mcp_compaction.compactor.results import FitOptions
from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.core.log.conversation import is_own_tool
from mcp_compaction.core.window.preview import note_of_size
from mcp_compaction.formats import Incoming
from mcp_compaction.hosts.events import HookedHost, ResultKind
from mcp_compaction.hosts.transcripts.pieces import (
    early_id_of_result,
    message_of,
    value_at,
    words_at,
)
from mcp_compaction.model import JsonObject, Message, Session, SessionInfo, ToolResult, Trimmed
from mcp_compaction.threads import Threads

_MOST_LOOKS, _PAUSE = 12, 0.1  # for a call that the host has not written down yet
_MOST_BACK = 100  # messages among which the call of a result that has just come stands


@dataclass(frozen=True, slots=True)
class ToldResult:
    """A result that a hook was told of, and that it may replace."""

    kind: ResultKind
    told: Any
    text: str

    def show(self, preview: str) -> Any:
        """The hook's answer, by which the model reads that text instead."""
        return _put(self.told, self.kind.text.split("."), preview) if self.kind.text else preview


def read_result(
    host: HookedHost, tool: str, response: str, *, is_plain: bool = False
) -> ToldResult | None:
    """The result of a tool as its hook has it; None where it has to stay as it is.

    `is_plain`: the response is the words themselves, as our module tells them.
    """
    kind = next((kind for kind in host.result if kind.is_of(tool)), None)
    if kind is None or is_own_tool(tool):
        return None
    if is_plain:
        return ToldResult(kind, response, response)
    try:
        told: object = json.loads(response)
    except (ValueError, RecursionError):
        told = response
    if any(value_at(told, [key]) for key in kind.unless):
        return None
    text = words_at(told, kind.text.split(".")) if kind.text else _words_of(told, response)
    return ToldResult(kind, told, text) if text else None


async def preview_result(
    work: Workspace,
    record: Callable[[], Awaitable[SessionInfo | None]],
    result: ToldResult,
    call: str,
    over: int,
) -> str:
    """Record a large result as a whole, behind its call; the preview of it, which has its ref.

    Empty where it stays as it is. `record`: records what is new of the chat, which a host may write
    down a moment later. `over`: the size, in tokens, over which a result becomes a preview.
    """
    is_small = len(result.text) <= over  # a token has at least one character
    if is_small or await Threads().run(work.counter.count, result.text) <= over:
        return ""
    for _ in range(_MOST_LOOKS):
        info = await record()
        if info is not None and has_call(await work.load(info), call):
            return await _archive_result(work, info, result, call, over)
        await asyncio.sleep(_PAUSE)
    return ""


async def _archive_result(
    work: Workspace, info: SessionInfo, result: ToldResult, call: str, over: int
) -> str:
    block: JsonObject = {"type": "tool_result", "tool_use_id": call, "content": result.text}
    said = message_of({"role": "user", "content": [block]}, "anthropic", early_id_of_result(call))
    came = Incoming(messages=said)
    done = await compactor.record_transcript(work, info, came, via="host")
    if not done.new:
        return ""
    (seq,) = done.seqs
    await compactor.shorten(
        work, info, seq - 1, FitOptions(relieve=False, offload_over_tokens=over)
    )
    session = await work.load(info)
    message = next(one for one in session.messages if one.seq == seq)
    shown = _shown_of(session, message)
    return _begin_of(message, shown) if result.kind.is_numbered else shown


def has_call(session: Session, call: str) -> bool:
    """Whether a call is one of this chat; what a subagent did belongs to its own."""
    newest = session.messages[-_MOST_BACK:]
    return any(one.id == call for message in newest for one in message.calls)


def _shown_of(session: Session, message: Message) -> str:
    """The text that the view shows of a result."""
    view = session.view
    entries = (one for one in (*view.body, *view.since) if isinstance(one, Trimmed))
    cuts = next((one.cuts for one in entries if one.seq == message.seq), ())
    shown = [cut.shown for cut in cuts if isinstance(cut.shown, ToolResult)]
    return shown[0].text if shown else message.results[0].text


def _begin_of(message: Message, shown: str) -> str:
    """As much of the beginning of a result as a preview of it takes."""
    text = message.results[0].text
    note = note_of_size(text, message.ref)
    begin = text[: max(0, len(shown) - len(note))]
    return f"{begin.rpartition(chr(10))[0] or begin}\n{note}"


def _words_of(told: object, response: str) -> str:
    """The words of what is a text, a list of texts, or an object that is shown as JSON."""
    if isinstance(told, str):
        return told
    if isinstance(told, dict):
        return response
    blocks = cast("list[Any]", told) if isinstance(told, list) else []
    texts = [words_at(block, ["text"]) for block in blocks]
    return "\n".join(texts) if all(texts) else ""


def _put(told: Any, place: list[str], text: str) -> Any:
    if not place:
        return text
    return {**told, place[0]: _put(told[place[0]], place[1:], text)}
