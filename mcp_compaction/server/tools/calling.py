"""A call of a tool at the server: the arguments it is published with, and its place."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from functools import wraps
from inspect import Parameter
from typing import Annotated, Any, TypeVar, get_type_hints

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError

from mcp_compaction import compactor, worker
from mcp_compaction.compactor.workspace import Progress, Workspace
from mcp_compaction.core.wording import kilo
from mcp_compaction.errors import InputError, NothingRecorded, UnknownSession
from mcp_compaction.model import Ask, Mode, Outcome, SessionInfo
from mcp_compaction.server.state import State, raising, state_of
from mcp_compaction.tools.answers import HookedChat, sessions_text
from mcp_compaction.tools.arguments import Arguments, Session
from mcp_compaction.tools.place import CallAnswer, CallPlace, Purpose

Ctx = Context[State]
T = TypeVar("T")


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
        context, session = _parameter("ctx", Ctx), _parameter("session", Session, None)
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
