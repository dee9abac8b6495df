"""Opens a store: `async with` for programs with asyncio, `with` for those without."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

from mcp_compaction.api.blocking import BlockingStore, open_blocking
from mcp_compaction.api.handles import OpenStore
from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.errors import InputError
from mcp_compaction.projects import find_project
from mcp_compaction.settings import MAY_BE_NONE, Settings, load_settings
from mcp_compaction.wiring import open_workspace


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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._blocking.__exit__(kind, error, trace)
