"""Long work is done off the event loop's thread; one session is compacted once at a time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from mcp_compaction import compactor
from mcp_compaction.compactor import compressing
from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.core.policy import Policy
from mcp_compaction.core.tokens import estimate
from mcp_compaction.formats import read_incoming
from mcp_compaction.model import (
    Ask,
    Compaction,
    Draft,
    Precision,
    SessionInfo,
    SummaryRequest,
    Traits,
)
from mcp_compaction.ports import SessionKey
from mcp_compaction.store.sqlite import open_store
from mcp_compaction.summarizers.extractive import ExtractiveSummarizer
from mcp_compaction.threads import Threads
from mcp_compaction.wiring import SystemClock
from tests.strategies import coding_session

pytestmark = pytest.mark.anyio


class Elsewhere:
    """A counter that refuses to count in the thread it was made in."""

    id = "estimate"
    precision: Precision = "estimate"

    def __init__(self) -> None:
        self._loop = threading.get_ident()

    def count(self, text: str) -> int:
        assert threading.get_ident() != self._loop
        return estimate(text)


class Held(ExtractiveSummarizer):
    """A summarizer that waits until it is let go on."""

    def __init__(self) -> None:
        super().__init__()
        self.was_asked, self.may_go_on = asyncio.Event(), asyncio.Event()

    async def summarize(self, request: SummaryRequest) -> Draft:
        self.was_asked.set()
        await self.may_go_on.wait()
        return await super().summarize(request)


@asynccontextmanager
async def full_session(folder: Path) -> AsyncGenerator[tuple[Workspace, SessionInfo]]:
    """A session that fills its window, counted off the loop's thread."""
    work = Workspace(
        store=await open_store(folder / "store.db"),
        summarizer=ExtractiveSummarizer(),
        counter=Elsewhere(),
        clock=SystemClock(),
        policy=Policy(window_tokens=10_000),
    )
    try:
        key, own = SessionKey(project="/p", name="work"), Traits(owns_window=True)
        info, _ = await compactor.open_session(work, key, own)
        body = {"system": "Be brief.", "messages": coding_session(60, 300)}
        await compactor.record(work, info, read_incoming(body))
        yield work, info
    finally:
        await work.store.close()


async def test_who_is_cancelled_does_not_wait_for_a_thread() -> None:
    begun, may_end = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        assert may_end.wait(60)

    task = asyncio.create_task(Threads().run(work))
    await asyncio.to_thread(begun.wait)
    task.cancel()
    await asyncio.wait({task})
    assert task.cancelled()
    assert not may_end.is_set()
    may_end.set()


async def test_who_waits_too_long_is_told_what_is_under_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compressing, "_PATIENCE", 0.0)
    async with full_session(tmp_path) as (work, info):
        held = Held()
        slow = replace(work, summarizer=held)
        first = asyncio.create_task(compactor.compress(slow, info, Ask(reason="first")))
        await held.was_asked.wait()
        assert await work.store.is_compacting(info.id)
        second = await compactor.compress(work, info, Ask(reason="second", force=True))
        assert second.kind == "refusal"
        assert second.text.startswith(
            "not compressed: another compaction of work has been under way"
        )
        assert second.text.endswith("Go on; context_stats tells when it is there.")
        assert await compactor.relieve(work, info) == second
        assert (
            await compactor.compress(work, info, Ask(reason="x", dry_run=True))
        ).kind == "projection"
        held.may_go_on.set()
        assert isinstance(await first, Compaction)
        assert not await work.store.is_compacting(info.id)
