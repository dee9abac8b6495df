"""Compacts large windows in a process of their own, for the server and the gateway, so that they
answer others meanwhile.

A thread would not do: it shares the interpreter, and each ping would wait for its turn many times.
The process reads a job, tells how it goes, and leaves. It imports no MCP; where the process that
started it is gone, its input ends, and so does it.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import pickle
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections import Counter
from contextlib import suppress
from threading import Lock, Thread
from typing import IO, Any, Literal, NamedTuple

import anyio

from mcp_compaction import compactor
from mcp_compaction.compactor.workspace import Progress, Workspace, ignore_progress
from mcp_compaction.errors import CompactionError
from mcp_compaction.model import Ask, Compaction, Failed, Outcome, SessionInfo, View
from mcp_compaction.program import start_python
from mcp_compaction.settings import Settings
from mcp_compaction.store.connect import SCHEMA_VERSION
from mcp_compaction.wiring import open_workspace

SIZE_BYTES = 8
SIGN_EVERY = 2.0  # seconds
Kind = Literal["alive", "doing", "done", "error"]

logger = logging.getLogger(__name__)

_ENDED = (
    "not compressed: the process that did it ended before it was done; nothing is half done, and "
    "context_stats tells what stands. Call again."
)

SILENCE = 60.0  # seconds without a sign of life, after which the process is ended
counts = Counter[str]()
"""What processes of their own have done for this one: `compactions` that they saved."""

LARGE = 40_000  # tokens of a window that takes longer than a process to start
_COMMAND = start_python("from mcp_compaction.worker import main; main()")


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


async def compress(
    settings: Settings, work: Workspace, info: SessionInfo, ask: Ask, progress: Progress
) -> Outcome:
    """Compact a session as asked, apart where its window is large."""
    if not await _goes_apart(work, info):
        return await compactor.compress(work, info, ask, progress)
    try:
        outcome = await _run_job(Job(settings, info, ask), progress)
    except _NotStartedError:
        return await compactor.compress(work, info, ask, progress)
    assert outcome is not None  # only a window that is not full enough gives none
    return outcome


async def relieve(settings: Settings, work: Workspace, info: SessionInfo) -> Outcome | None:
    """Compact a session whose window is too full, apart where it is large."""
    if not await _goes_apart(work, info):
        return await compactor.relieve(work, info)
    try:
        return await _run_job(Job(settings, info, None), ignore_progress)
    except _NotStartedError:
        return await compactor.relieve(work, info)


async def make_ready(settings: Settings, work: Workspace, info: SessionInfo) -> bool:
    """Make the compaction that `compactor.relieve` saves when it is due, apart where the window is
    large; says whether there is one."""
    if await compactor.is_ready(work, info):
        return True
    made: Outcome | None = None
    if await _goes_apart(work, info):
        with suppress(_NotStartedError):
            made = await _run_job(Job(settings, info, None, is_saved=False), ignore_progress)
    if made is None:
        made = await compactor.make(work, info)
    if isinstance(made, Compaction):
        work.ready[info.id] = made
    return isinstance(made, Compaction)


async def _goes_apart(work: Workspace, info: SessionInfo) -> bool:
    """Whether a window is large; a session's own model can be asked from this process alone."""
    if info.id in work.own_models:
        return False
    return (await work.read_window(info)).fill.counted >= LARGE


class _NotStartedError(Exception):
    """There is no process to do a job, as after an upgrade under a running server."""


async def _run_job(job: Job, progress: Progress) -> Outcome | None:
    """The outcome of a job in a process of its own; a cancellation ends it and leaves no half."""
    try:
        process = await asyncio.create_subprocess_exec(
            *_COMMAND, stdin=PIPE, stdout=PIPE, start_new_session=True
        )
    except OSError as error:
        logger.warning("no process can be started to compact %s: %s", job.info.name, error)
        raise _NotStartedError from error
    try:
        return await _follow(process, job, progress)
    finally:
        with anyio.CancelScope(shield=True):
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()


async def _follow(process: Process, job: Job, progress: Progress) -> Outcome | None:
    assert process.stdin is not None
    assert process.stdout is not None
    has_started = False
    try:
        process.stdin.write(pickle.dumps(job))
        await process.stdin.drain()
        while True:
            kind, what = await asyncio.wait_for(_read_report(process.stdout), SILENCE)
            has_started = True
            match kind:
                case "alive":
                    pass
                case "doing":
                    await progress(what)
                case "done":
                    is_shown = job.ask is not None and job.ask.dry_run
                    is_saved = job.is_saved and not is_shown and isinstance(what, Compaction)
                    counts["compactions"] += is_saved
                    return what
                case "error":
                    raise what
    except (asyncio.IncompleteReadError, ConnectionError) as error:
        if not has_started:
            logger.warning("the process that was to compact %s did not start", job.info.name)
            raise _NotStartedError from error
        logger.error("the process that compacted %s ended before it was done", job.info.name)
        return Failed(reason="process_ended", text=_ENDED)
    except TimeoutError:
        logger.error("the process that compacted %s gave no sign of life", job.info.name)
        return Failed(reason="process_ended", text=_ENDED)


async def _read_report(stream: asyncio.StreamReader) -> tuple[Kind, Any]:
    size = int.from_bytes(await stream.readexactly(SIZE_BYTES), "big")
    return pickle.loads(await stream.readexactly(size))  # our own process wrote it
