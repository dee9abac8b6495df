"""The open store and its sessions for programs without asyncio: the same names, without await; and
the one way to open a store, for both.

One event loop runs in a thread of its own for as long as the store is open (anyio's blocking
portal). With a loop that only runs during a call, as asyncio.Runner has it, a store could not be
used from several threads, and what goes on between calls would stand still.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Generator
from contextlib import AbstractAsyncContextManager, ExitStack, contextmanager
from functools import partial, wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from anyio.from_thread import BlockingPortal, start_blocking_portal

from mcp_compaction.api.handles import OpenSession, OpenStore
from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.errors import InputError, StoreError
from mcp_compaction.model import AgentProfile, Complexity
from mcp_compaction.projects import find_project
from mcp_compaction.settings import MAY_BE_NONE, Settings, load_settings
from mcp_compaction.wiring import open_workspace

P = ParamSpec("P")
R = TypeVar("R")


def open_store(
    *,
    home: str | os.PathLike[str] | None = None,
    project: str | os.PathLike[str] | None = None,
    **settings: object,
) -> Opening:
    """A store to be entered with `async with`, or with `with` in programs without asyncio.

    `home`: its folder; without one, the store that the command line and the server use.
    `project`: the folder that sessions and project pins belong to; without one, the repository
    of the working directory. Every setting is a keyword, as window_tokens=200_000, and goes over
    MCP_COMPACTION_* and the user's settings file; None is the default, but where a setting knows
    none beside another default, as preserve_recent_percent: there it means none.
    """
    keywords = {
        name: "none" if value is None else value
        for name, value in settings.items()
        if value is not None or name in MAY_BE_NONE
    }
    if home is not None:
        keywords["home"] = Path(home).expanduser().absolute()
    if project is not None:
        keywords["project"] = os.fspath(project)
    return Opening(load_settings(os.environ, keywords=keywords))


class Opening:
    """A store about to be opened; it is closed at the end of the block."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._is_open = False
        self._work: Workspace | None = None
        self._blocking = ExitStack()

    async def __aenter__(self) -> OpenStore:
        if self._is_open:
            raise InputError("this store is open already; call open_store() once for each block.")
        project = find_project(self._settings.project)
        self._work = await open_workspace(self._settings)
        self._is_open = True
        return OpenStore(self._work, self._settings, project)

    async def __aexit__(self, *_: object) -> None:
        self._is_open = False
        if self._work is not None:
            await self._work.store.close()

    def __enter__(self) -> BlockingStore:
        return self._blocking.enter_context(open_blocking(self))

    def __exit__(self, *error: Any) -> None:
        self._blocking.__exit__(*error)


@contextmanager
def open_blocking(opening: AbstractAsyncContextManager[OpenStore]) -> Generator[BlockingStore]:
    """The store, opened and closed in the thread of its own event loop."""
    _refuse_event_loop()
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(opening) as store:
        yield BlockingStore(store, portal)


def _refuse_event_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise InputError(
        "an event loop runs in this thread, and a blocking call would stop it; write "
        "`async with open_store(…)` and await each call, or call from another thread."
    )


def _wait_for(portal: BlockingPortal, work: Callable[[], Coroutine[Any, Any, R]]) -> R:
    _refuse_event_loop()
    try:
        future = portal.start_task_soon(work)
    except RuntimeError:
        raise StoreError("The store is closed; open it again.") from None
    try:
        return future.result()
    finally:
        future.cancel()  # after Ctrl-C the work would go on; what has ended is not changed by it


def _blocking(
    method: Callable[Concatenate[OpenSession, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[BlockingSession, P], R]:
    """The method that waits for what the asynchronous one gives."""

    @wraps(method)
    def call(self: BlockingSession, *args: P.args, **kwargs: P.kwargs) -> R:
        return _wait_for(self.portal, partial(method, self.handle, *args, **kwargs))

    return call


class BlockingStore:
    """A store that is open, for programs without asyncio; any thread may use it."""

    def __init__(self, store: OpenStore, portal: BlockingPortal) -> None:
        self._store = store
        self._portal = portal

    @property
    def project(self) -> str:
        """The project whose sessions it gives."""
        return self._store.project

    def session(
        self,
        name: str,
        *,
        model: str | None = None,
        window_tokens: int | None = None,
        complexity: Complexity | None = None,
        agent_profile: AgentProfile | None = None,
    ) -> BlockingSession:
        """The session of that name, made where it is new; what is named here is set for it."""
        work = partial(
            self._store.session,
            name,
            model=model,
            window_tokens=window_tokens,
            complexity=complexity,
            agent_profile=agent_profile,
        )
        return BlockingSession(_wait_for(self._portal, work), self._portal)


class BlockingSession:
    """One session of an open store, for programs without asyncio; any thread may use it."""

    def __init__(self, handle: OpenSession, portal: BlockingPortal) -> None:
        self.handle = handle
        self.portal = portal

    @property
    def name(self) -> str:
        """The name by which the session is opened again."""
        return self.handle.name

    record = _blocking(OpenSession.record)
    request = _blocking(OpenSession.request)
    fit = _blocking(OpenSession.fit)
    record_answer = _blocking(OpenSession.record_answer)
    prepare = _blocking(OpenSession.prepare)
    records = _blocking(OpenSession.records)
    compress = _blocking(OpenSession.compress)
    relieve = _blocking(OpenSession.relieve)
    restore = _blocking(OpenSession.restore)
    pin = _blocking(OpenSession.pin)
    unpin = _blocking(OpenSession.unpin)
    pins = _blocking(OpenSession.pins)
    recall = _blocking(OpenSession.recall)
    quote = _blocking(OpenSession.quote)
    page_in = _blocking(OpenSession.page_in)
    stats = _blocking(OpenSession.stats)
