"""The sessions of threads, for code that may run with an event loop or without one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self, TypeVar

from mcp_compaction.adapters.failures import Failures
from mcp_compaction.api.blocking import BlockingSession, BlockingStore
from mcp_compaction.api.handles import OpenSession
from mcp_compaction.api.opening import open_store
from mcp_compaction.errors import InputError

T = TypeVar("T")


class Sessions:
    """A store that is open within `with` or `async with`, and the sessions in it.

    The store's event loop has a thread of its own, so that `invoke` and `ainvoke` of one graph
    may both use it.
    """

    def __init__(self, settings: dict[str, Any]) -> None:
        self._settings = settings
        self._stack = ExitStack()
        self._store: BlockingStore | None = None
        self.failures = Failures("graph")

    def __enter__(self) -> Self:
        self._store = self._stack.enter_context(open_store(**self._settings))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._store = None
        self._stack.__exit__(kind, error, trace)

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.__enter__)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await asyncio.to_thread(self.__exit__, kind, error, trace)

    def open(self, name: str) -> BlockingSession:
        """The session of that name."""
        if self._store is None:
            raise InputError("the store is closed; use this inside its `with` or `async with`.")
        return self._store.session(name)

    def run(self, name: str, work: Callable[[OpenSession], Coroutine[Any, Any, T]]) -> T:
        """What some work with a session gives; it runs in the store's own thread."""
        session = self.open(name)
        return session.portal.call(work, session.handle)


class InStore:
    """What is used inside `with` or `async with`, while the store of its sessions is open."""

    _sessions: Sessions

    def __enter__(self) -> Self:
        self._sessions.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._sessions.__exit__(kind, error, trace)

    async def __aenter__(self) -> Self:
        await self._sessions.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._sessions.__aexit__(kind, error, trace)

    @property
    def failures(self) -> int:
        """How often something failed here; each is logged, and the graph went on."""
        return self._sessions.failures.count
