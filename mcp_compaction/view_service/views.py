"""The views of chats whose host lets somebody else choose what its model reads.

They fail open: on any fault, or where it takes too long, the host sends its own messages. What was
begun goes on beside, so that the next request finds it done.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from mcp_compaction.compactor import Compactor
from mcp_compaction.compactor.results import FitOptions
from mcp_compaction.hosts.finding import find_chat
from mcp_compaction.hosts.opencode.window import read_window, tell_plugin
from mcp_compaction.hosts.recording import record_new
from mcp_compaction.model import JsonObject, SessionInfo, Traits
from mcp_compaction.ports import SessionKey
from mcp_compaction.threads import Threads

logger = logging.getLogger(__name__)

T = TypeVar("T")


class CallersChat(NamedTuple):
    """A conversation, as the program that asks knows it."""

    project: str
    host: str
    session: str  # the host's own id for it
    window_tokens: int | None = None


class ViewToSend(NamedTuple):
    """What to send to a model, and the session it belongs to."""

    session: str
    messages: list[JsonObject]  # what is shown whole is the caller's own object
    request: Any  # the same, as the caller gave it: a list, or a request body


@dataclass(slots=True)
class ServedViews:
    """The views of one process, each session's one after another."""

    open_compactor: Callable[[], Awaitable[Compactor]]
    may_record: Callable[[str], bool]
    environ: Mapping[str, str]
    limit: float  # seconds that a host waits at most, but for the first view
    offload_over: int | None = None  # tokens over which a new result becomes a preview
    first_limit: float = 5.0  # seconds for the first view of a process, which opens the store
    _locks: dict[CallersChat, asyncio.Lock] = field(default_factory=dict[CallersChat, asyncio.Lock])
    _sessions: dict[str, SessionInfo] = field(default_factory=dict[str, SessionInfo])
    _under_way: set[asyncio.Task[Any]] = field(default_factory=set[asyncio.Task[Any]])
    _threads: Threads = field(default_factory=Threads)

    def has_shown(self, session: str | None) -> bool:
        """Whether the window of that chat is made of our views."""
        return session in self._sessions

    async def view(self, chat: CallersChat, sent: Any) -> ViewToSend | None:
        """What to send instead of a list of messages or a request body; None: send your own."""
        return await self._in_time(chat, self._fit(chat, sent))

    async def view_for_opencode(self, chat: CallersChat, given: object) -> JsonObject | None:
        """What opencode's plugin should send instead of its messages; None: send them."""
        return await self._in_time(chat, self._fit_opencode(chat, given))

    async def record(self, chat: CallersChat) -> None:
        """Record what is new in the host's own transcript of a chat."""
        await self._in_time(chat, self._record(chat))

    async def close(self) -> None:
        """End what is under way; each session is as before or as after."""
        running = set(self._under_way)
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)

    async def _in_time(self, chat: CallersChat, work: Coroutine[Any, Any, T]) -> T | None:
        task = asyncio.create_task(self._try(chat, work))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        limit = self.limit if self._sessions else max(self.limit, self.first_limit)
        done, _ = await asyncio.wait({task}, timeout=limit)
        if not done:
            logger.warning("a view for %s took too long; its own messages are sent", chat.host)
            return None
        return task.result()

    async def _try(self, chat: CallersChat, work: Coroutine[Any, Any, T]) -> T | None:
        try:
            if not self.may_record(chat.project):
                work.close()
                return None
            async with self._locks.setdefault(chat._replace(window_tokens=None), asyncio.Lock()):
                return await work
        except Exception as error:  # noqa: BLE001  # a host goes on with its own messages
            logger.warning("there is no view for %s: %r", chat.host, error)
            return None

    async def _fit(self, chat: CallersChat, sent: Any, model: str | None = None) -> ViewToSend:
        compactor = await self.open_compactor()
        info = await self._open(compactor, chat)
        # What the host has kept itself was recorded before: any other words are only told.
        options = FitOptions(offload_over_tokens=self.offload_over, model=model, is_hearsay=True)
        fitted = await compactor.fit(info, sent, options)
        return ViewToSend(info.name, fitted.messages, fitted.request)

    async def _fit_opencode(self, chat: CallersChat, given: object) -> JsonObject:
        window = await self._threads.run(read_window, given)
        # First what the host itself has kept: that tells the user's words from the host's.
        await self._record(chat)
        view = await self._fit(chat, window.messages, window.model)
        told = await self._threads.run(tell_plugin, window, view.messages)
        return {"session": view.session, **told}

    async def _record(self, chat: CallersChat) -> None:
        transcript = await self._threads.run(find_chat, chat.host, chat.session, self.environ)
        if transcript is None:
            return
        compactor = await self.open_compactor()
        taken = await record_new(compactor, transcript, lambda _: chat.project)
        if taken.session is not None and not self.has_shown(chat.session):
            self._sessions[chat.session] = await compactor.own_window(taken.session)

    async def _open(self, compactor: Compactor, chat: CallersChat) -> SessionInfo:
        info = self._sessions.get(chat.session)
        if info is None:
            key = SessionKey(project=chat.project, host=chat.host, host_session=chat.session)
            info, _ = await compactor.open(key, Traits())
            info = await compactor.own_window(info)
        told = chat.window_tokens if compactor.window_set is None else None
        if told is not None and told != info.traits.window_tokens:
            traits = Traits(window_tokens=told)
            info = await compactor.set_traits(info, traits)
        self._sessions[chat.session] = info
        return info
