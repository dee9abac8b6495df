"""The compactions of full windows that one process has begun without being asked, one a session."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, NamedTuple

from mcp_compaction.core.window.fill import Fill
from mcp_compaction.errors import CompactionError
from mcp_compaction.model import Compaction, Failed, Outcome, SessionInfo

logger = logging.getLogger(__name__)

_LEAST_GROWTH = 100  # a hundredth of the window: what cannot be freed is not tried for less

Work = Coroutine[Any, Any, Outcome | None]


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
