"""The tool that only hooks of a host call, host_event; not listed, so that it costs nothing."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Annotated, Any, Literal, TypeVar

from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, TextContent
from pydantic import Field

from mcp_compaction.errors import CompactionError
from mcp_compaction.hosts.events import hooked_hosts, keys_of_models
from mcp_compaction.hosts.handling import HookAnswer, HostEvent
from mcp_compaction.hosts.hook_runs import WITHOUT, seconds_allowed
from mcp_compaction.server.state import State, state_of
from mcp_compaction.server.tools.calling import Ctx
from mcp_compaction.tools.arguments import Arguments

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
