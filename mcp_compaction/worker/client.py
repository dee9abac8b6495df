"""Compacts large windows in a process of their own, so that its caller answers others meanwhile.

A thread would not do: it shares the interpreter, and each ping would wait for its turn many times.
"""

from __future__ import annotations

import asyncio
import logging
import pickle
from asyncio.subprocess import PIPE, Process
from collections import Counter
from contextlib import suppress
from typing import Any

import anyio

from mcp_compaction import compactor
from mcp_compaction.compactor.progress import Progress, ignore_progress
from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.model import Ask, Compaction, Failed, Outcome, SessionInfo
from mcp_compaction.program import start_python
from mcp_compaction.settings import Settings
from mcp_compaction.worker.process import SIZE_BYTES, Job, Kind

logger = logging.getLogger(__name__)

_ENDED = (
    "not compressed: the process that did it ended before it was done; nothing is half done, and "
    "context_stats tells what stands. Call again."
)

SILENCE = 60.0  # seconds without a sign of life, after which the process is ended
counts = Counter[str]()
"""What processes of their own have done for this one: `compactions` that they saved."""

LARGE = 40_000  # tokens of a window that takes longer than a process to start
_COMMAND = start_python("from mcp_compaction.worker.process import main; main()")


async def compress(
    settings: Settings, work: Workspace, info: SessionInfo, ask: Ask, progress: Progress
) -> Outcome:
    """Compact a session as asked, apart where its window is large."""
    if not await _is_large(work, info):
        return await compactor.compress(work, info, ask, progress)
    try:
        outcome = await _run_job(Job(settings, info, ask), progress)
    except _NotStartedError:
        return await compactor.compress(work, info, ask, progress)
    assert outcome is not None  # only a window that is not full enough gives none
    return outcome


async def relieve(settings: Settings, work: Workspace, info: SessionInfo) -> Outcome | None:
    """Compact a session whose window is too full, apart where it is large."""
    if not await _is_large(work, info):
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
    if await _is_large(work, info):
        with suppress(_NotStartedError):
            made = await _run_job(Job(settings, info, None, is_saved=False), ignore_progress)
    if made is None:
        made = await compactor.make(work, info)
    if isinstance(made, Compaction):
        work.ready[info.id] = made
    return isinstance(made, Compaction)


async def _is_large(work: Workspace, info: SessionInfo) -> bool:
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
