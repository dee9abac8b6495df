"""The tool for loops without hooks: record_messages."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated, cast

from mcp.types import CallToolResult
from pydantic import BaseModel, ConfigDict, Field

from mcp_compaction import compactor
from mcp_compaction.compactor.results import FitOptions
from mcp_compaction.core.text.secrets import masked_line
from mcp_compaction.errors import InputError
from mcp_compaction.formats import read_incoming
from mcp_compaction.formats.show import objects_of
from mcp_compaction.formats.thinking import is_row
from mcp_compaction.model import Compaction, JsonObject, SessionInfo, Shape, ShownMessage
from mcp_compaction.ports import Recorded
from mcp_compaction.server.state import State
from mcp_compaction.server.tools.calling import EndedError, ServerPlace, takes
from mcp_compaction.server.tools.replying import directive_of, reply
from mcp_compaction.tools import answers
from mcp_compaction.tools.arguments import RecordMessages
from mcp_compaction.tools.compressing import plan_after_overflow
from mcp_compaction.tools.place import CallAnswer
from mcp_compaction.tools.system_answers import compacting_elsewhere_line, compacting_line
from mcp_compaction.worker import client as worker


@takes(RecordMessages)
async def record_messages(place: ServerPlace, asked: RecordMessages) -> CallToolResult:
    """Answer a call of the tool: record, and give the refs in order."""
    state, messages = place.state, asked.messages
    state.check_records()
    if isinstance(messages, dict) and isinstance(wish := messages.get("record"), bool):
        info, _ = await place.session("make")
        own = state.host(place.ctx)  # where it does not say the chat, a plugin or a hook names it
        own = own if own.has_session else own.named_by_hook(place.name or "") or own
        if info.host_session != own.session:
            raise InputError("nothing was changed: say it in that chat, which alone may switch it.")
        await compactor.switch_recording(await state.workspace(), info, wish)
        told = answers.RECORDING_ON if wish else answers.RECORDING_OFF
        return await reply(place, CallAnswer(told, info))
    loop = _read_loop(messages)
    came = await state.threads.run(read_incoming, messages)
    if loop is not None and loop.reported_tokens is not None:
        came = came.model_copy(update={"reported": loop.reported_tokens})
    work = await state.workspace()
    info, is_new = await place.session("make")
    if not info.traits.owns_window and not state.host(place.ctx).is_closed:
        info = await compactor.own_window(work, info)
    done = await compactor.record(work, info, came, asked.after, via="tool")
    meta: JsonObject = {"refs": [f"m{seq}" for seq in done.seqs]}
    if loop is not None:
        meta |= await _answer_loop(place, info, done, loop)
    refs = answers.refs_text(done.seqs) or "none"
    lines = [f"recorded {done.new} new of {len(done.seqs)} messages: {refs}"]
    if done.diverged is not None:
        lines.append(f"what was sent differs from m{done.diverged}, which stays as it was said")
    if done.masked:
        lines.append(masked_line(done.masked))
    if place.mode(info) == "own" and (loop is None or loop.relieve is None):
        lines += await _relieve(state, info)
    return await reply(place, CallAnswer("\n".join(lines), info, done, is_new), meta)


class _Overflow(BaseModel):
    """What a provider said when it refused a request as too large."""

    model_config = ConfigDict(extra="ignore")

    limit: Annotated[int, Field(gt=0)] | None = None  # the tokens that it said are allowed


class _Loop(BaseModel):
    """What a loop may say beside its messages: the view it has, and what it wants."""

    model_config = ConfigDict(extra="ignore")

    view: int | None = None
    pins: tuple[int, ...] | None = None  # in force when it got that view
    shape: Shape = "anthropic"
    offload_over_tokens: Annotated[int, Field(gt=0)] | None = None
    microcompact: bool = False
    relieve: bool | None = None  # before the answer where the window is too full, or not at all
    reported_tokens: Annotated[int, Field(gt=0)] | None = None  # of the window with these messages
    overflow: _Overflow | None = None
    wants: tuple[str, ...] = ()  # the refs of messages that it has no more
    # What is to be kept of its thinking, in the words of `formats.thinking`.
    thinking: Annotated[dict[str, str | None], Field(max_length=10_000)] = {}


def _read_loop(sent: object) -> _Loop | None:
    said = cast("dict[str, object]", sent).get("loop") if isinstance(sent, dict) else None
    return None if said is None else _Loop.model_validate(said)


async def _answer_loop(
    place: ServerPlace, info: SessionInfo, done: Recorded, loop: _Loop
) -> JsonObject:
    """What a loop is told beside the text: places and fill, and the view where it has another."""
    state, work = place.state, await place.workspace()
    # Not the newest of now: what others wrote meanwhile is then told by the next answer.
    newest_of_log = info.messages + done.new
    meta: JsonObject = {"ours": [*done.ours], "cut": [*done.cut], "log": newest_of_log}
    rows = {key: mark for key, mark in loop.thinking.items() if is_row(key, mark)}
    if rows:
        await work.store.keep_thinking(info.id, rows)
    if loop.view is None:
        meta |= {"thinking": {**await work.store.thinking(info.id)}, "model": info.traits.model}
    window = await work.load_window(info)
    if not await compactor.begin(work, window):
        await compactor.show_late_pins(work, window)
    relieves = bool(loop.relieve) and place.mode(info) == "own"
    over = loop.offload_over_tokens if done.new else None
    await compactor.shorten(
        work, info, info.messages, FitOptions(relieves, over, loop.microcompact)
    )
    if loop.overflow is not None:
        info, ask = await plan_after_overflow(work, info, loop.overflow.limit)
        meta["compressed"] = False
        with suppress(EndedError):
            meta["compressed"] = isinstance(await place.compress(info, ask), Compaction)
    if relieves:
        await _relieve(state, info)
        await state.relieving.wait(info)
    window = await work.read_window(info)
    line = answers.budget_line(window.fill, window.pressure, by_agent=state.by_agent)
    meta |= {"fill_percent": window.fill.percent, "budget": line}
    now = await work.load_window(info)
    meta |= {"view": now.view.version, "gone": [[*run] for run in now.view.gone]}
    if loop.wants:
        meta["objects"] = await _objects_for(state, info, loop)
    if now.view.version != loop.view or tuple(pin.number for pin in now.pins) != loop.pins:
        meta |= await directive_of(place, info, None)
    return meta


async def _objects_for(state: State, info: SessionInfo, loop: _Loop) -> JsonObject:
    """The messages that a loop has no more and its view shows, by their refs."""
    session = await (await state.workspace()).load(info)
    wanted = set(loop.wants)
    shown = (ShownMessage(message=one) for one in session.messages if one.ref in wanted)
    return {entry.message.ref: objects_of(entry, loop.shape)[0] for entry in shown}


async def _relieve(state: State, info: SessionInfo) -> list[str]:
    """Have a window that is too full compacted beside the calls, and say so."""
    work = await state.workspace()
    fill = await compactor.fill_to_relieve(work, info)
    if fill is None:
        return []
    if not state.relieving.is_running(info):
        if await work.store.is_compacting(info.id):
            return [compacting_elsewhere_line(fill)]
        if not state.relieving.is_wanted(info, fill):
            return []
        relief = worker.relieve(state.settings, work, info)
        state.relieving.begin(info, fill, relief)
    return [compacting_line(fill)]
