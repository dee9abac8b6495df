"""The process that compacts one large window: reads a job, tells how it goes, and leaves.

It imports no MCP. Where the process that started it is gone, its input ends, and so does it.
"""

from __future__ import annotations

import asyncio
import gc
import os
import pickle
import sys
import time
from threading import Lock, Thread
from typing import IO, Any, Literal, NamedTuple

from mcp_compaction import compactor
from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.errors import CompactionError
from mcp_compaction.model import Ask, Compaction, Outcome, SessionInfo, View
from mcp_compaction.settings import Settings
from mcp_compaction.store.connect import SCHEMA_VERSION
from mcp_compaction.wiring import open_workspace

SIZE_BYTES = 8
SIGN_EVERY = 2.0  # seconds
Kind = Literal["alive", "doing", "done", "error"]


class Job(NamedTuple):
    """The session to compact, and how."""

    settings: Settings
    info: SessionInfo
    ask: Ask | None  # None: as the policy wants it, where the window is too full
    is_saved: bool = True  # False: the compaction is only made, whatever the fill
    schema: int = SCHEMA_VERSION  # of the server's store, which a newer program would change


class Worker:
    """Does one job and writes what it has to tell, each thing behind its size."""

    def __init__(self, job: Job, out: IO[bytes]) -> None:
        self._job = job
        self._out = out
        self._telling = Lock()

    async def work(self) -> None:
        """Compact; the outcome is told once the store is closed."""
        self._tell("alive", None)
        Thread(target=self._give_signs, name="signs of life", daemon=True).start()
        try:
            outcome = await self._compact()
        except CompactionError as error:
            self._tell("error", error)
        else:
            self._tell("done", _without_view(outcome) if self._job.is_saved else outcome)

    async def _compact(self) -> Outcome | None:
        work = await open_workspace(self._job.settings)
        try:
            return await self._run(work)
        finally:
            await work.store.close()

    async def _run(self, work: Workspace) -> Outcome | None:
        if not self._job.is_saved:
            return await compactor.make(work, self._job.info)
        if self._job.ask is None:
            return await compactor.relieve(work, self._job.info)
        return await compactor.compress(work, self._job.info, self._job.ask, self._report)

    async def _report(self, doing: str) -> None:
        self._tell("doing", doing)

    def _give_signs(self) -> None:
        while True:
            time.sleep(SIGN_EVERY)
            self._tell("alive", None)

    def _tell(self, kind: Kind, what: Any) -> None:
        told = pickle.dumps((kind, what))
        with self._telling:
            self._out.write(len(told).to_bytes(SIZE_BYTES, "big") + told)
            self._out.flush()


def _without_view(outcome: Outcome | None) -> Outcome | None:
    """The outcome for one who reads the new view from the store: large ones take long to carry."""
    if not isinstance(outcome, Compaction):
        return outcome
    view = View(version=outcome.view.version, upto=outcome.view.upto)
    return outcome.model_copy(update={"view": view, "digests": ()})


def main() -> None:
    """Do the job that comes on stdin."""
    gc.disable()  # a fifth of the time went into looking for cycles; the process ends with its job
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever prints must not spoil what is told
    job: Job = pickle.load(sys.stdin.buffer)  # our own server wrote it
    if job.schema != SCHEMA_VERSION:
        sys.exit("mcp-compaction was upgraded under a running server; restart that server")
    Thread(target=_leave_with_server, name="lifeline", daemon=True).start()
    asyncio.run(Worker(job, out).work())


def _leave_with_server() -> None:
    os.read(0, 1)
    os._exit(1)
