"""The views of chats whose host lets somebody else choose what its model reads.

They fail open: on any fault, or where it takes too long, the host sends its own messages. What was
begun goes on beside, so that the next request finds it done.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, TypeVar

from mcp_compaction import compactor
from mcp_compaction.compactor.results import FitOptions
from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.hosts.chat import HostChat, HostChats
from mcp_compaction.hosts.known import hosts_with
from mcp_compaction.model import JsonObject, SessionInfo

logger = logging.getLogger(__name__)

T = TypeVar("T")

_MOST_RECORDS = 10_000  # characters, as hooks put back in other hosts


@dataclass(slots=True)
class ServedViews:
    """The views of one process, each session's one after another."""

    open_workspace: Callable[[], Awaitable[Workspace]]
    chats: HostChats
    limit: float  # seconds that a host waits at most, but for the first view
    offload_over: int | None = None  # tokens over which a new result becomes a preview
    prompt: str = ""  # by which a host is to ask for its own summaries; empty: by its own
    first_limit: float = 5.0  # seconds for the first view of a process, which opens the store
    _sessions: dict[str, SessionInfo] = field(default_factory=dict[str, SessionInfo])

    def has_shown(self, session: str | None) -> bool:
        """Whether the window of that chat is made of our views."""
        return session in self._sessions

    async def view_for(
        self, host: str, session: str, given: object, window_tokens: object = None
    ) -> JsonObject | None:
        """What a host's plugin should send instead of its messages; None: send them."""
        chat = self.chats.hear_of(host, session)
        return await self._in_time(chat, self._fit(chat, given, window_tokens))

    async def record(self, host: str, session: str) -> None:
        """Record what is new in a host's own transcript of a chat."""
        chat = self.chats.hear_of(host, session)
        await self._in_time(chat, self._record(chat))

    async def handover_for(self, host: str, session: str) -> JsonObject | None:
        """What a host that compacts by itself should ask its model, and what is put behind the
        answer; None: it asks by its own prompt."""
        if not self.prompt:
            return None
        chat = self.chats.hear_of(host, session)
        return await self._in_time(chat, self._hand_over(chat), self.first_limit)

    async def _in_time(
        self, chat: HostChat, work: Coroutine[Any, Any, T], least: float = 0.0
    ) -> T | None:
        task = self.chats.start(self._try(chat, work))
        limit = max(self.limit, least if self._sessions else self.first_limit)
        done, _ = await asyncio.wait({task}, timeout=limit)
        if not done:
            logger.warning("a view for %s took too long; its own messages are sent", chat.host)
            return None
        return task.result()

    async def _try(self, chat: HostChat, work: Coroutine[Any, Any, T]) -> T | None:
        try:
            if not self.chats.may_record(self.chats.project):
                work.close()
                return None
            async with chat.lock:
                return await work
        except Exception as error:  # noqa: BLE001  # a host goes on with its own messages
            logger.warning("there is no view for %s: %r", chat.host, error)
            return None

    async def _fit(self, chat: HostChat, given: object, window_tokens: object) -> JsonObject:
        threads, form = self.chats.threads, import_module(hosts_with("plugin")[chat.host]["window"])
        window = await threads.run(form.read_window, given)
        # First what the host itself has kept: that tells the user's words from the host's. Any
        # other words are only told.
        work = await self._record(chat)
        info = await self.chats.open_with_history(work, chat, window_tokens)
        if not info.traits.owns_window:
            info = await compactor.own_window(work, info)
        self._sessions[chat.session] = info
        options = FitOptions(
            offload_over_tokens=self.offload_over, model=window.model, is_hearsay=True
        )
        fitted = await compactor.fit(work, info, window.messages, options)
        told = await threads.run(form.tell_plugin, window, fitted.layout)
        return {"session": info.name, **told}

    async def _hand_over(self, chat: HostChat) -> JsonObject:
        work = await self._record(chat)
        info = await self.chats.open_with_history(work, chat)
        whole = await compactor.digest_log(work, info)
        records = await compactor.read_after_compaction(work, whole, _MOST_RECORDS)
        form = import_module(hosts_with("plugin")[chat.host]["window"])
        return form.hand_over(self.prompt, records)

    async def _record(self, chat: HostChat) -> Workspace:
        work = await self.open_workspace()
        taken = await self.chats.record_locked(work, chat)
        if taken.session is not None and not self.has_shown(chat.session):
            info = await self.chats.open_with_history(work, chat)
            self._sessions[chat.session] = await compactor.own_window(work, info)
        return work
