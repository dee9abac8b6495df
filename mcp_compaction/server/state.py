"""The state of one server process: settings, session finder, the workspace opened on first use, the
compactions it began without being asked, and the chats that a module of ours inside the host
serves.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial, wraps
from pathlib import Path
from typing import Any, NamedTuple, ParamSpec, TypeVar

import anyio
from mcp.server.mcpserver import Context

from mcp_compaction import compactor
from mcp_compaction.compactor.gauge import FillReading
from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.core.window.fill import Fill
from mcp_compaction.errors import CompactionError, InputError, NeedsUser, SettingsError
from mcp_compaction.hosts.chat import HostChat, HostChats
from mcp_compaction.hosts.claude_code.rows import ChatRows
from mcp_compaction.hosts.folders import trusted_environ
from mcp_compaction.hosts.handling import EventHandler
from mcp_compaction.hosts.hook_notes import RunNotes, note_trouble
from mcp_compaction.hosts.serving import (
    ServedChat,
    forget_chat,
    gateway_around,
    gateway_of_chat,
    is_through_gateway,
)
from mcp_compaction.model import (
    Compaction,
    Draft,
    Failed,
    HostJobs,
    Mode,
    Outcome,
    Pin,
    SessionInfo,
)
from mcp_compaction.program import complete, typed_command
from mcp_compaction.server.claude_prose import ChatProse
from mcp_compaction.server.session_finder import Caller, SessionFinder, host_of
from mcp_compaction.settings import Settings
from mcp_compaction.settings_file import view_seconds
from mcp_compaction.summarizers.session_model import QUESTION
from mcp_compaction.threads import Threads
from mcp_compaction.tools import answers
from mcp_compaction.tools.place import Purpose
from mcp_compaction.view_service.views import ServedViews
from mcp_compaction.wiring import open_workspace

_LEAST_GROWTH = 100  # a hundredth of the window: what cannot be freed is not tried for less

Work = Coroutine[Any, Any, Outcome | None]

logger = logging.getLogger(__name__)

_MENDED = "Nothing was done; tell the user, who restarts the server (in Claude Code: /mcp) then."
_PATIENCE_AT_END = 1.0  # seconds for what was said and what hooks told last

_MOST_LOOKS, _PAUSE = 10, 0.1  # for words that went through a gateway

P = ParamSpec("P")
T = TypeVar("T")


class _Begun(NamedTuple):
    task: asyncio.Task[Outcome | None]
    fill: Fill


class Relieving:
    """Runs beside the calls; what came of it is given once."""

    def __init__(self) -> None:
        self._begun: dict[int, _Begun] = {}
        self._not_below: dict[int, int] = {}  # tokens from which a session is tried again

    def is_wanted(self, info: SessionInfo, fill: Fill) -> bool:
        """Whether a session that is so full should be relieved now."""
        return info.id not in self._begun and fill.tokens >= self._not_below.get(info.id, 0)

    def begin(self, info: SessionInfo, fill: Fill, work: Work) -> None:
        """Relieve a session; the caller does not wait."""
        task = asyncio.create_task(work, name=f"relieving {info.name}")
        task.add_done_callback(_log_failure)
        self._begun[info.id] = _Begun(task, fill)

    def is_running(self, info: SessionInfo) -> bool:
        """Whether this process relieves that session now."""
        begun = self._begun.get(info.id)
        return begun is not None and not begun.task.done()

    async def wait(self, info: SessionInfo) -> None:
        """Wait for the end of what was begun for a session, whatever comes of it."""
        if info.id in self._begun:
            await asyncio.wait({self._begun[info.id].task})

    def take(self, info: SessionInfo) -> Outcome | None:
        """The outcome of relieving a session, given once; nothing before its end."""
        begun = self._begun.get(info.id)
        if begun is None or not begun.task.done():
            return None
        del self._begun[info.id]
        outcome = _outcome_of(begun.task)
        if not isinstance(outcome, Compaction):
            grown = begun.fill.tokens + begun.fill.window // _LEAST_GROWTH
            self._not_below[info.id] = grown
        return outcome

    async def close(self) -> None:
        """End all of it; each session is as before or as after."""
        tasks = {begun.task for begun in self._begun.values()}
        self._begun.clear()
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


def _outcome_of(task: asyncio.Task[Outcome | None]) -> Outcome | None:
    error = task.exception()
    if error is None:
        return task.result()
    name = type(error).__name__
    reason = str(error) if isinstance(error, CompactionError) else f"{name}."
    text = f"not compressed: {reason} The session is as it was; go on."
    return Failed(reason="error", error=name, text=text)


def _log_failure(task: asyncio.Task[Outcome | None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.error("%s failed", task.get_name(), exc_info=error)


@dataclass(slots=True)
class ModChat:
    """What the module has told of one chat, and how things are."""

    recorded: HostChat
    rows: ChatRows | None = None
    is_interactive: bool = False
    limit: int | None = None  # tokens at which the host compacts it by itself
    is_stuck: bool = False  # compactions no longer make it smaller
    compactions: int = 0  # by the host itself, too, that its transcript is to tell of
    is_changed: bool = False  # its view, since the host last took one
    shrinks: bool = False  # its requests show our view within a turn, too
    is_threaded: bool = False  # they bring only what is new
    wants_whole: bool = False  # its next compaction gives back what the host's own took away
    running: tuple[HostJobs, ...] = ()  # what it says of the background
    agents: dict[str, ModChat] = field(default_factory=dict[str, "ModChat"])  # its subagents
    starter: ModChat | None = None  # the chat that started it, where it is a subagent
    prose: ChatProse = field(default_factory=lambda: ChatProse("off"))
    doing: str = ""  # what a compaction that runs is at
    last: str = ""  # compaction, in a line
    served: ServedChat | None = None
    recording: asyncio.Lock = field(default_factory=asyncio.Lock)


@dataclass(slots=True)
class ModChats:
    """What the module has told of its chats, by the host's own ids for them."""

    known: dict[str, ModChat] = field(default_factory=dict[str, ModChat])
    expected: str = ""  # the chat that the host has started this server for

    def is_at_work(self, session: str | None) -> bool:
        """Whether the module has told of that chat."""
        return session is not None and session in self.known

    def mode_of(self, session: str | None) -> Mode:
        """When a chat's window becomes what our view shows: where nobody sits before it, the host
        takes it over only when it compacts."""
        chat = self.known.get(session or "")
        if chat is not None and chat.shrinks:
            return "own"  # the very next request shows it
        return "turn" if chat is not None and chat.is_interactive else "host"

    def tell_last(self, session: str) -> str:
        """The last compaction of a chat, in a line."""
        chat = self.known.get(session)
        return f"mcp-compaction: {chat.last}" if chat is not None and chat.last else ""

    def limit_of(self, session: str | None) -> int | None:
        """The tokens at which the host compacts a chat by itself; None where it is not known."""
        chat = self.known.get(session or "")
        return chat.limit if chat is not None else None

    def running_in(self, session: str | None) -> tuple[HostJobs, ...]:
        """What the host last said of the background of a chat."""
        chat = self.known.get(session or "")
        return chat.running if chat is not None else ()

    def take_prose(self, session: str | None) -> Draft | None:
        """The handover that the model of a chat wrote over its window, for one compaction."""
        chat = self.known.get(session or "")
        return chat.prose.take() if chat is not None else None

    def note_change(self, info: SessionInfo) -> None:
        """Note that a tool has changed the view of a chat: the host is to take it over."""
        chat = self.known.get(info.host_session or "")
        if chat is not None:
            chat.is_changed = True

    def has_transcript_of(self, session: str | None) -> bool:
        """Whether the transcript of that chat is recorded here."""
        return bool(session) and session in (self.expected, *self.known)

    def close(self, home: Path) -> None:
        """Note that the chats are served no more."""
        for chat in self.known.values():
            forget_chat(home, chat.recorded.session)


@dataclass
class State:
    """Everything the tools share."""

    settings: Settings
    environ: Mapping[str, str]
    finder: SessionFinder
    fault: str = ""  # what is wrong with the user's settings, so that nothing is done
    own_pins: set[int] = field(default_factory=set[int])  # made through this process
    told_session: int = 0  # that a caller was last told is meant where it names none
    mod: ModChats = field(default_factory=ModChats)  # of our module inside the host
    relieving: Relieving = field(default_factory=Relieving)
    threads: Threads = field(default_factory=Threads)
    events_under_way: set[asyncio.Task[Any]] = field(default_factory=set[asyncio.Task[Any]])
    opens: Callable[[Settings], Awaitable[Workspace]] | None = None  # None: as the settings say
    _told_chat: Caller | None = None  # the chat that a hook last told of
    _work: Workspace | None = None
    _opening: anyio.Lock = field(default_factory=anyio.Lock)

    @property
    def project(self) -> str:
        """The project this process works for."""
        return self.finder.project

    @property
    def by_agent(self) -> bool:
        """Whether the agent decides when to compress; else the system does."""
        return self.settings.policy.agent_controlled

    @cached_property
    def chats(self) -> HostChats:
        """The chats that anybody has told of."""
        home, wish = self.settings.home, self.settings
        has_gateway = partial(is_through_gateway, home, self.environ)
        environ = trusted_environ(self.environ, home)
        return HostChats(self.project, environ, wish.records, has_gateway, self.mod.is_at_work)

    @cached_property
    def events(self) -> EventHandler:
        """Who handles what hooks tell."""
        over = self.settings.policy.offload_over_tokens
        return EventHandler(self.chats, self.note_trouble, over, self.environ)

    @cached_property
    def runs(self) -> RunNotes:
        """Where it is noted that a host runs our hooks."""
        return RunNotes(self.environ)

    def note_trouble(self, host: str, event: str, what: str) -> None:
        """Note durably that an event of a host was not handled as it should have been."""
        note_trouble(self.environ, host, event, what)

    @cached_property
    def views(self) -> ServedViews:
        """Who gives a plugin what to send."""
        limit = view_seconds(self.environ)
        return ServedViews(
            self.workspace,
            self.chats,
            limit,
            self.settings.policy.offload_over_tokens,
            prompt=QUESTION if self.settings.prose != "off" else "",
        )

    def follow_chat(self, host: str, session: str) -> None:
        """Take a chat for the calling one: the environment still names the one before /clear."""
        self._told_chat = Caller(host, session, is_closed=True)

    async def workspace(self) -> Workspace:
        """The workspace; what keeps it from being opened fails the call, not the start."""
        self._check_settings()
        async with self._opening:
            if self._work is None:
                self._work = await (self.opens or open_workspace)(self.settings)
            return self._work

    async def session(
        self, ctx: Context[State], name: str | None, purpose: Purpose
    ) -> tuple[SessionInfo, bool]:
        """The session a call means, and whether it was made just now."""
        work, host = await self.workspace(), self.host(ctx)
        if name is None:
            await self.chats.record_if_known(work, host.session)
        info, is_new = await self.finder.find(work, host, name, purpose)
        await self.chats.words.vouch(work, info)
        return info, is_new

    async def hear_words(self, info: SessionInfo, text: str) -> None:
        """Wait a moment until a host has written these words down, and until a gateway has recorded
        the request with them: an agent may pin at once what the user just said."""
        work = await self.workspace()
        is_served = self.mod.has_transcript_of(info.host_session)
        if not is_served and gateway_of_chat(self.settings.home, info.host_session) is None:
            return
        for _ in range(_MOST_LOOKS):
            if await compactor.is_said(work, info, text):
                return
            await anyio.sleep(_PAUSE)
            await self.chats.record_if_known(work, info.host_session)
            await self.chats.words.vouch(work, info)

    async def take_new_pins(self, window: FillReading | None) -> tuple[Pin, ...]:
        """The pins that bind this project's sessions and are new to it, each once.

        Not those made through this very process: who plants a rule may not swallow its news.
        """
        known = window if window and window.session.info.project == self.project else None
        return await compactor.announce(await self.workspace(), self.project, known, self.own_pins)

    async def describe_new_session(self, ctx: Context[State], info: SessionInfo) -> str:
        """The name of a new session, and the pins it has from earlier ones of its project."""
        pins = await (await self.workspace()).project_pins(info.project)
        inherited = tuple(pin for pin in pins if pin.session != info.name)
        return answers.new_session_text(info, inherited, self.host(ctx).has_session)

    def host(self, ctx: Context[State]) -> Caller:
        """The host that is calling."""
        params = ctx.request_context.session.client_params
        client = params.client_info.name if params is not None else ""
        host = host_of(ctx.request_context.meta, self.environ, client)
        gateway = gateway_around(self.settings.home, self.environ)
        chat = gateway.newest_chat if gateway is not None else None
        if chat is not None and (not host.has_session or host.names_first_chat):
            return Caller(chat[0], chat[1], is_closed=True)
        told = self._told_chat
        if told is not None and host.name == told.name and host.names_first_chat:
            return replace(host, session=told.session)
        return host

    def is_of_another_chat(self, ctx: Context[State], info: SessionInfo) -> bool:
        """Whether the host says which chat is calling, and it is not that session's."""
        host = self.host(ctx)
        return host.has_session and info.host_session != host.session

    def mode(self, ctx: Context[State], info: SessionInfo) -> Mode:
        """Whether this caller can replace the window of that session, and who puts pins back."""
        is_shown = self.views.has_shown(info.host_session) or (
            gateway_of_chat(self.settings.home, info.host_session) is not None
        )
        if is_shown or not self.host(ctx).is_closed:
            return info.traits.mode
        if self.mod.is_at_work(info.host_session):
            return self.mod.mode_of(info.host_session)
        if self.events.has_heard_of(info.host_session):
            return "hooks"
        return info.traits.model_copy(update={"owns_window": False}).mode

    def check_records(self) -> None:
        """Refuse to keep what the user asked not to have kept."""
        self._check_settings()
        if not self.settings.records(self.project):
            raise InputError(
                f"recording is off for {self.project} (setting `record`); nothing was kept. "
                "Go on without, or ask the user to turn it on."
            )

    def _check_settings(self) -> None:
        if self.fault:
            raise SettingsError(f"{self.fault} {_MENDED}")

    async def record_last(self) -> None:
        """Record what was said last: a host writes it down when its module has told of it."""
        try:
            async with asyncio.timeout(_PATIENCE_AT_END):
                await self.chats.record_last(
                    await self.workspace(),
                    lambda one: self.mod.is_at_work(one) or self.views.has_shown(one),
                )
        except (CompactionError, TimeoutError) as error:
            logger.warning("the end of a chat was not recorded: %s", error)

    async def close(self) -> None:
        """End what runs beside the calls, and let go of the store."""
        with anyio.CancelScope(shield=True):
            await self.relieving.close()
            await self.chats.close()
            if self._work is not None:
                await self.record_last()
            self.mod.close(self.settings.home)
            if self.events_under_way:
                await asyncio.wait(self.events_under_way, timeout=_PATIENCE_AT_END)
            if self._work is not None:
                await self._work.store.close()
        self._work = None


def state_of(ctx: Context[State]) -> State:
    """The process's state, from a call's context."""
    return ctx.request_context.lifespan_context


@contextmanager
def raising(as_error: Callable[[str], Exception]) -> Generator[None]:
    """Raise expected errors of the block as this error, with their text."""
    try:
        yield
    except NeedsUser as error:  # its command is complete: asking_user knows the session
        raise as_error(str(error)) from error
    except CompactionError as error:
        program = typed_command(os.environ.get("PATH"))
        raise as_error(complete(str(error), program, {})) from error


def errors_as(
    as_error: Callable[[str], Exception],
) -> Callable[[Callable[P, Awaitable[T]]], Callable[P, Awaitable[T]]]:
    """Decorate a handler: its expected errors reach the caller as this error, with their text."""

    def wrap(handler: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
        @wraps(handler)
        async def handle(*args: P.args, **kwargs: P.kwargs) -> T:
            with raising(as_error):
                return await handler(*args, **kwargs)

        return handle

    return wrap
