"""Answers a call: what a tool's one body says, the lines around it, and what programs are told."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any

from mcp.types import CallToolResult, TextContent

from mcp_compaction import compactor
from mcp_compaction.compactor.gauge import Stats
from mcp_compaction.core.log.pinned import pinned_block
from mcp_compaction.core.window.fill import Fill
from mcp_compaction.errors import NothingRecorded, UnknownSession
from mcp_compaction.formats.thinking import may_be_bound
from mcp_compaction.model import Compaction, JsonObject, Session, SessionInfo
from mcp_compaction.server.resources import facts_of
from mcp_compaction.server.tools.calling import EndedError, ServerPlace
from mcp_compaction.tools import answers
from mcp_compaction.tools.answers import relief_text
from mcp_compaction.tools.arguments import Arguments, CompressContext, ContextStats
from mcp_compaction.tools.directive import (
    directive,
    receipt_meta,
    without_thinking_of,
    words_of_layout,
)
from mcp_compaction.tools.place import CallAnswer

Body = Callable[[Any, Any], Awaitable[CallAnswer]]


async def answer_call(place: ServerPlace, body: Body, asked: Arguments) -> CallToolResult:
    """What a tool's body answers, as a host and a program are told it."""
    began = time.monotonic()
    try:
        answer = await body(place, asked)
    except EndedError as ended:
        answer = ended.answer
    except (NothingRecorded, UnknownSession) as nothing:
        if place.name is not None or not isinstance(asked, ContextStats):
            raise
        answer = CallAnswer(str(nothing), None, shows_pins=True)
    meta: JsonObject = {}
    preserves_markers = True
    if isinstance(answer.done, Stats):
        meta = facts_of(answer.done)
    elif isinstance(asked, CompressContext) and answer.done is not None:
        meta = receipt_meta(answer.done, "agent", time.monotonic() - began)
        preserves_markers = asked.preserve_markers
    if answer.info is not None and isinstance(answer.done, Compaction):
        place.state.mod.note_change(answer.info)
        if answer.done.receipt.kind != "digest":
            meta |= await directive_of(place, answer.info, answer.done, preserves_markers)
    return await reply(place, answer, meta)


async def reply(
    place: ServerPlace, answer: CallAnswer, meta: JsonObject | None = None
) -> CallToolResult:
    """An answer with what belongs around it; its last line the fill where that is known.

    What came of relieving the session meanwhile is told in the first answer after its end.
    """
    state, info, meta = place.state, answer.info, meta or {}
    lines: list[str] = []
    if answer.shows_pins and (info is None or place.mode(info) != "own"):
        lines += await _pins_first(place, info)
    lines.append(answer.text)
    if info is not None and answer.is_new:
        lines.append(await state.describe_new_session(place.ctx, info))
    relief = state.relieving.take(info) if info is not None else None
    if info is not None and relief is not None:
        lines.append(relief_text(relief, info.name, by_agent=state.by_agent))
        if isinstance(relief, Compaction) and "compaction_directive" not in meta:
            meta |= receipt_meta(relief, "auto") | await directive_of(place, info, relief)
    window = None if info is None else await (await place.workspace()).read_window(info)
    lines += answers.new_pin_lines(await state.take_new_pins(window), "\n".join(lines))
    if info is not None and window is not None:
        is_guessed = place.name is None and not answer.is_new
        is_guessed = is_guessed and not state.host(place.ctx).has_session
        if is_guessed and state.told_session != info.id:
            lines.append(answers.only_session_line(info))
            state.told_session = info.id
        lines += await _fill_last(place, info, window.fill_shown)
    text = TextContent(type="text", text="\n".join(lines))
    return CallToolResult(content=[text], _meta=meta or None)


async def _fill_last(place: ServerPlace, info: SessionInfo, fill: Fill | None) -> list[str]:
    """The line that tells the fill: of a window of ours, or as the host reports it."""
    if fill is None:
        return []
    if place.mode(info) == "own":
        return [answers.fill_line(fill)]
    hooked = await place.hooked(info, fill.tokens)
    is_told = hooked is not None and hooked.is_fill_reported
    return [hooked.describe_fill(fill.tokens)] if hooked is not None and is_told else []


async def _pins_first(place: ServerPlace, info: SessionInfo | None) -> list[str]:
    work = await place.workspace()
    if info is None or info.project != place.project:
        pins = await work.project_pins(place.project)
    else:
        pins = await work.pins(info)
    block = pinned_block(pin for pin in pins if pin.kind != "note")
    return [block] if block else []


async def directive_of(
    place: ServerPlace, info: SessionInfo, done: Compaction | None, preserve_markers: bool = True
) -> JsonObject:
    """The directive for a program, with all that was said since a compaction or another change."""
    work = await place.workspace()
    # A kit looks after thinking by itself.
    now, had = await work.load_change(info, lambda one: done is not None and is_bound(one))
    terms = work.index_terms(now)
    receipt = done.receipt if done is not None else None
    told = await place.threads.run(directive, now, receipt, preserve_markers, *terms)
    if had is None:
        return told
    before = await place.threads.run(directive, had, None, preserve_markers, *terms)
    words = words_of_layout(told), words_of_layout(before)
    return without_thinking_of(told, await compactor.list_thinking_left_out(work, now, *words))


def is_bound(session: Session) -> bool:
    """Whether a session's model may have bound some of the thinking that its view shows."""
    return may_be_bound(session.info.traits.model or "", "anthropic") and any(
        message.role == "assistant" and "thinking" in message.raw for message in session.messages
    )
