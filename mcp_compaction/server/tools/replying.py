"""A call of a tool at the server: the arguments it is published with, its place, and its answer:
what a tool's one body says, the lines around it, and what programs are told.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Awaitable, Callable
from functools import wraps
from inspect import Parameter
from typing import Annotated, Any, TypeVar, get_type_hints

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, TextContent

from mcp_compaction import compactor, worker
from mcp_compaction.compactor.gauge import Stats
from mcp_compaction.compactor.workspace import Progress, Workspace
from mcp_compaction.core.log.pinned import pinned_block
from mcp_compaction.core.window.fill import Fill
from mcp_compaction.core.wording import kilo
from mcp_compaction.errors import InputError, NothingRecorded, UnknownSession
from mcp_compaction.formats.thinking import may_be_bound
from mcp_compaction.model import Ask, Compaction, JsonObject, Mode, Outcome, Session, SessionInfo
from mcp_compaction.server.resources import facts_of
from mcp_compaction.server.state import State, raising, state_of
from mcp_compaction.tools import answers, arguments
from mcp_compaction.tools.answers import HookedChat, relief_text, sessions_text
from mcp_compaction.tools.arguments import Arguments, CompressContext, ContextStats
from mcp_compaction.tools.directive import (
    directive,
    receipt_meta,
    without_thinking_of,
    words_of_layout,
)
from mcp_compaction.tools.place import CallAnswer, CallPlace, Purpose

Ctx = Context[State]
T = TypeVar("T")

Body = Callable[[Any, Any], Awaitable[CallAnswer]]


def takes(
    model: type[Arguments],
) -> Callable[[Callable[..., Awaitable[T]]], Callable[..., Awaitable[T]]]:
    """Decorate a function of a place and a model: the SDK sees it take the model's arguments, the
    name of a session, and whatever else the function has the SDK resolve."""
    given = [
        _parameter(
            name,
            Annotated[field.annotation, field],
            Parameter.empty if field.is_required() else field.default,
        )
        for name, field in model.model_fields.items()
    ]

    def wrap(function: Callable[..., Awaitable[T]]) -> Callable[..., Awaitable[T]]:
        @wraps(function)
        async def call(ctx: Ctx, session: str | None, **values: Any) -> T:
            # The SDK has validated them.
            asked = model.model_construct(**{one.name: values.pop(one.name) for one in given})
            with raising(ToolError):
                return await function(ServerPlace(ctx, session), asked, **values)

        own = get_type_hints(function, include_extras=True)
        resolved = [_parameter(name, own[name]) for name in [*own][2:-1]]
        context, session = _parameter("ctx", Ctx), _parameter("session", arguments.Session, None)
        signature = inspect.Signature([context, *resolved, *given, session])
        call.__signature__ = signature  # type: ignore[attr-defined]
        kinds = {name: one.annotation for name, one in signature.parameters.items()}
        call.__annotations__ = {**kinds, "return": own["return"]}
        return call

    return wrap


def _parameter(name: str, kind: Any, default: Any = Parameter.empty) -> Parameter:
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=kind)


class EndedError(Exception):
    """Raised with what is answered to one who wants a brief and means no session."""

    def __init__(self, answer: CallAnswer) -> None:
        super().__init__()
        self.answer = answer


class ServerPlace(CallPlace):
    """The call of a host or a loop at this server; `name`: of the session, as the caller says."""

    def __init__(self, ctx: Ctx, name: str | None) -> None:
        self.ctx, self.name, self.state = ctx, name, state_of(ctx)
        self.settings, self.project = self.state.settings, self.state.project
        self.environ, self.threads = self.state.environ, self.state.threads
        self.must_name = self.state.finder.must_name
        self.is_named = name is not None or self.must_name

    async def workspace(self) -> Workspace:
        return await self.state.workspace()

    async def session(self, purpose: Purpose) -> tuple[SessionInfo, bool]:
        return await self.state.session(self.ctx, self.name, purpose)

    async def session_to_pin(self, known: SessionInfo | None) -> tuple[SessionInfo, bool]:
        if known is None or known.host_session is not None:  # a chat's transcript gets its mark
            return await self.session("make")
        self.state.finder.remember(known)
        return known, False

    async def find(self, scope: str) -> SessionInfo:
        """The session that a recall means; across projects only when that was asked for."""
        try:
            return (await self.session("look"))[0]
        except UnknownSession:
            if scope != "all" or self.name is None:
                raise
            found = await compactor.find_named(await self.workspace(), None, self.name)
            if found is None:
                raise
            return found

    async def find_to_resume(self, scope: str) -> SessionInfo:
        """The session to go on with, which this process then remembers."""
        work, finder = await self.workspace(), self.state.finder
        has_session = self.state.host(self.ctx).has_session
        if not self.is_named and not has_session and len(finder.known) != 1:
            if found := await compactor.list_sessions(work, self.project, 5):
                raise EndedError(CallAnswer(sessions_text(found), None, shows_pins=True))
            start = f"{finder.ways_to_start} starts it."
            raise InputError(f"nothing is kept for this project yet; {start}")
        try:
            info = await self.find(scope)
        except NothingRecorded as nothing:
            if await work.project_pins(self.project):
                raise EndedError(CallAnswer(str(nothing), None, shows_pins=True)) from None
            raise
        finder.remember(info)
        return info

    def check_records(self) -> None:
        self.state.check_records()

    def mode(self, info: SessionInfo) -> Mode:
        return self.state.mode(self.ctx, info)

    def is_prepared(self, info: SessionInfo) -> bool:
        is_hooked = self.state.events.has_heard_of(info.host_session)
        return is_hooked and not self.state.mod.is_at_work(info.host_session)

    def is_of_another_chat(self, info: SessionInfo) -> bool:
        return self.state.is_of_another_chat(self.ctx, info)

    async def hooked(self, info: SessionInfo, tokens: int) -> HookedChat | None:
        state, work = self.state, await self.workspace()
        is_reported = (await work.load_window(info)).calibration.reported > 0
        served = state.mod.limit_of(info.host_session)
        if served is not None:
            where = f"at {kilo(served)} the host compacts on its own"
            return HookedChat(info.host, is_reported, served, where)
        if not state.events.has_heard_of(info.host_session):
            return None
        limit = await state.events.find_limit(work, info, tokens)
        if limit is None:
            return HookedChat(info.host, is_reported, None)
        return HookedChat(info.host, is_reported, limit.tokens, limit.describe())

    async def hear_words(self, info: SessionInfo, text: str) -> None:
        await self.state.hear_words(info, text)

    async def compress(self, info: SessionInfo, ask: Ask) -> Outcome:
        """Compact once what already runs has ended, in a process of its own where the window is
        large."""
        work, relieving = await self.workspace(), self.state.relieving
        report = _progress_of(self.ctx)
        if relieving.is_running(info):
            await report("waiting for the compaction that is under way")
            await relieving.wait(info)
        told = self.state.mod.running_in(info.host_session)
        is_real = not ask.dry_run and ask.digest is None
        prose = self.state.mod.take_prose(info.host_session) if is_real else None
        ask = ask.model_copy(update={"running": told, "prose": prose})
        return await worker.compress(self.settings, work, info, ask, report)


def _progress_of(ctx: Ctx) -> Progress:
    step = 0

    async def report(what: str) -> None:
        nonlocal step
        step += 1
        await ctx.report_progress(step, None, what)

    return report


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
    return may_be_bound(session.info.traits.model or "") and any(
        message.role == "assistant" and "thinking" in message.raw for message in session.messages
    )
