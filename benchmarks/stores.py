"""Workspaces on real stores, as the benchmarks of recall ask them."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path

from mcp_compaction import compactor
from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.core.policy import Policy
from mcp_compaction.counters.o200k import best_counter
from mcp_compaction.formats import Incoming
from mcp_compaction.model import SessionInfo
from mcp_compaction.ports import SessionKey, Store, TokenCounter
from mcp_compaction.store.connect import store_path
from mcp_compaction.store.sqlite import open_store
from mcp_compaction.summarizers.extractive import ExtractiveSummarizer
from mcp_compaction.wiring import SystemClock

PROJECT = "/project"


@asynccontextmanager
async def temporary_store() -> AsyncGenerator[Workspace]:
    """A workspace on a store that is gone afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        work = await open_at(Path(folder))
        try:
            yield work
        finally:
            await work.store.close()


async def open_at(folder: Path) -> Workspace:
    """A workspace on the store in that folder."""
    return open_on(await open_store(store_path(folder)))


def open_on(store: Store) -> Workspace:
    """A workspace on a store that is open."""
    return Workspace(
        store=store,
        summarizer=ExtractiveSummarizer(),
        counter=counter(),
        clock=SystemClock(),
        policy=Policy(),
    )


@cache
def counter() -> TokenCounter:
    """One for all: loading its ranks takes longer than a hundred recalls."""
    ready = best_counter()
    ready.count("they are loaded now, before anything is timed")
    return ready


async def record(work: Workspace, name: str, came: Incoming) -> tuple[SessionInfo, dict[str, int]]:
    """Record a session; with the place of each ref in it."""
    info, _ = await compactor.open_session(work, SessionKey(project=PROJECT, name=name))
    recorded = await compactor.record(work, info, came)
    return info, {f"m{seq}": place for place, seq in enumerate(recorded.seqs)}
