"""The tools that record: record_messages for loops without hooks, host_event for hooks alone."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from contextlib import suppress
from typing import Annotated, Any, Literal, TypeVar, cast

from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, TextContent
from pydantic import BaseModel, ConfigDict, Field

from mcp_compaction import compactor, worker
from mcp_compaction.compactor.results import FitOptions
from mcp_compaction.core.text.refs import join_refs
from mcp_compaction.core.text.secrets import masked_line
from mcp_compaction.errors import CompactionError, InputError
from mcp_compaction.formats import read_incoming
from mcp_compaction.formats.show import objects_of
from mcp_compaction.formats.thinking import is_row
from mcp_compaction.hosts.events import hooked_hosts, keys_of_models
from mcp_compaction.hosts.handling import HookAnswer, HostEvent
from mcp_compaction.hosts.hook_notes import WITHOUT, seconds_allowed
from mcp_compaction.model import Compaction, JsonObject, SessionInfo, Shape, ShownMessage
from mcp_compaction.ports import Recorded
from mcp_compaction.server.state import State, state_of
from mcp_compaction.server.tools.replying import (
    Ctx,
    EndedError,
    ServerPlace,
    directive_of,
    reply,
    takes,
)
from mcp_compaction.tools import answers
from mcp_compaction.tools.answers import compacting_elsewhere_line, compacting_line
from mcp_compaction.tools.arguments import Arguments, RecordMessages
from mcp_compaction.tools.compressing import plan_after_overflow
from mcp_compaction.tools.place import CallAnswer


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
    refs = join_refs(done.seqs) or "none"
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


T = TypeVar("T")

logger = logging.getLogger(__name__)

_PATIENCE = 1.5  # seconds; what takes longer goes on beside the calls
_PATIENCE_TO_CONFIRM = 0.3
_NOT_FOR_MODELS = (
    "host_event is for the hooks of a host; nothing was done. What was said is recorded without it."
)


class ToldByHook(Arguments):
    """Take in what a host's hook tells, and answer as hooks do."""


async def host_event(
    ctx: Ctx,
    event: Annotated[str, Field(max_length=80)],
    session_id: Annotated[str, Field(max_length=200)],
    transcript_path: str = "",
    cwd: str = "",
    part: Literal["", "pins", "records"] = "",
    source: str = "",
    summary: str = "",
    tool: str = "",
    call: str = "",
    agent: str = "",
    response: str = "",
    last: str = "",
) -> CallToolResult:
    """Take in what a host's hook tells, and answer as hooks do."""
    state = state_of(ctx)
    host = _host_of_hook(ctx, state, session_id)
    place = (host, event, session_id, transcript_path)
    told = HostEvent(*place, part, source, summary, tool, call, agent, response, last)
    state.follow_chat(host, session_id)
    state.runs.note(host, event)
    hook = hooked_hosts()[host].find_hook(event)
    is_end = hook is not None and hook.moment == "rest"
    if hooked_hosts()[host].has_module and is_end and not state.mod.is_at_work(session_id):
        state.runs.note(WITHOUT.format(host), event)
    text = await _handle_in_time(state, told)
    return CallToolResult(content=[TextContent(type="text", text=text or _nothing(state, told))])


def _nothing(state: State, told: HostEvent) -> str:
    """What is answered where there is nothing to say: after a compaction the host shows even that,
    so that it is told what our module has done."""
    hook = hooked_hosts()[told.host].find_hook(told.name)
    is_shown = hook is not None and hook.moment == "after" and hook.answer == "text"
    return state.mod.tell_last(told.session) if is_shown else "{}"


def _host_of_hook(ctx: Ctx, state: State, session: str) -> str:
    """The host whose hook is calling; a model that calls is refused."""
    meta = ctx.request_context.meta or {}
    host = state.host(ctx)
    is_other_thread = not host.names_first_chat and host.session != session
    is_models = state.finder.must_name or bool(keys_of_models() & set(meta))
    if is_models or host.name not in hooked_hosts() or is_other_thread:
        state.note_trouble(host.name, "", "a call that no hook made was refused")
        raise ToolError(_NOT_FOR_MODELS)
    return host.name


async def _handle_in_time(state: State, told: HostEvent) -> str:
    """The answer to an event; empty where it would hold the host for too long."""
    task = _begin(state, _handle(state, told))
    allowed = seconds_allowed(state.environ)
    done, _ = await asyncio.wait({task}, timeout=_PATIENCE if allowed is None else allowed)
    if not done:
        logger.warning("%s took too long and goes on beside the calls", told.name)
        state.note_trouble(told.host, told.name, "it took too long and went on beside the calls")
        return ""
    answer = task.result()
    if answer.session:  # what it notes in the store must not hold the host either
        await asyncio.wait({_begin(state, _confirm(state, answer))}, timeout=_PATIENCE_TO_CONFIRM)
    return answer.text


def _begin(state: State, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """Begin what may go on beside the calls."""
    task = asyncio.create_task(work)
    state.events_under_way.add(task)
    task.add_done_callback(state.events_under_way.discard)
    return task


async def _confirm(state: State, answer: HookAnswer) -> None:
    try:
        await state.events.confirm(await state.workspace(), answer)
    except CompactionError as error:
        logger.warning("it was not noted what a hook was given: %s", error)


async def _handle(state: State, told: HostEvent) -> HookAnswer:
    try:
        return await state.events.handle(await state.workspace(), told)
    except Exception as error:  # noqa: BLE001  # a hook never stops its host
        logger.warning("%s was not handled: %r", told.name, error)
        state.note_trouble(told.host, told.name, f"it was not handled: {error!r}")
        return HookAnswer()
