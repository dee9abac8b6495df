"""A draft is asked for once in a compaction, however often the view changes under it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from mcp_compaction import compactor
from mcp_compaction.compactor.results import FALLBACK
from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.core.digest.extract import extract
from mcp_compaction.core.policy import Policy
from mcp_compaction.counters.o200k import EstimateCounter
from mcp_compaction.errors import SummarizerError
from mcp_compaction.formats import read_incoming
from mcp_compaction.model import (
    Ask,
    Compaction,
    Draft,
    Failed,
    ModelCall,
    SessionInfo,
    SummaryRequest,
    Traits,
)
from mcp_compaction.ports import SessionKey, Summarizer
from mcp_compaction.store.sqlite import open_store
from mcp_compaction.wiring import SystemClock
from tests.strategies import coding_session

pytestmark = pytest.mark.anyio

CALL = ModelCall(model="model-x", seconds=1.0, input_tokens=2_000, output_tokens=300, cost=0.01)


class Counting:
    """A model that counts what it is asked for."""

    name = "counting"

    def __init__(self, error: SummarizerError | None = None) -> None:
        self.spans: list[tuple[int, int]] = []
        self._error = error

    async def summarize(self, request: SummaryRequest) -> Draft:
        self.spans.append((request.first, request.last))
        if self._error is not None:
            raise self._error
        return extract(request).model_copy(update={"author": "model-x", "calls": (CALL,)})


@asynccontextmanager
async def compressed_session(
    folder: Path, summarizer: Summarizer
) -> AsyncGenerator[tuple[Workspace, SessionInfo]]:
    """A session that was compressed once and has gone on since."""
    work = Workspace(
        store=await open_store(folder / "store.db"),
        summarizer=summarizer,
        counter=EstimateCounter(),
        clock=SystemClock(),
        policy=Policy(window_tokens=20_000),
    )
    try:
        key, traits = SessionKey(project="/p", name="work"), Traits(owns_window=True)
        info, _ = await compactor.open_session(work, key, traits)
        steps = coding_session(50, 400)
        await compactor.record(work, info, read_incoming(steps[:50]))
        without = replace(work, summarizer=Counting())
        first = await compactor.compress(without, info, Ask(reason="first", force=True))
        assert isinstance(first, Compaction)
        await compactor.record(work, info, read_incoming(steps[50:]))
        yield work, info
    finally:
        await work.store.close()


async def test_a_view_that_changed_meanwhile_costs_no_second_call(tmp_path: Path) -> None:
    model = Counting()
    async with compressed_session(tmp_path, model) as (work, info):
        gone = iter(("m3", "m5"))

        async def change_view(doing: str) -> None:
            if doing == "saving" and (ref := next(gone, None)):
                assert isinstance(await compactor.page_in(work, info, ref), Compaction)

        outcome = await compactor.compress(work, info, Ask(reason="again", force=True), change_view)
        assert isinstance(outcome, Compaction)
        assert next(gone, None) is None
        stats = await compactor.read_stats(work, info)
        assert stats.system.calls == 2  # one for each compaction
    assert len(model.spans) == 1


async def test_a_span_that_changed_meanwhile_is_asked_for_anew(tmp_path: Path) -> None:
    model = Counting()
    async with compressed_session(tmp_path, model) as (work, info):
        undone = iter(("c1",))

        async def go_back(doing: str) -> None:
            if doing == "saving" and (ref := next(undone, None)):
                assert isinstance(await compactor.restore(work, info, ref, force=True), Compaction)

        outcome = await compactor.compress(work, info, Ask(reason="again", force=True), go_back)
        assert isinstance(outcome, Compaction)
    assert len(model.spans) == len(set(model.spans)) > 1


async def test_a_model_that_failed_is_not_asked_again_for_the_same_span(tmp_path: Path) -> None:
    model = Counting(SummarizerError("the endpoint refused the key", (CALL,)))
    async with compressed_session(tmp_path, model) as (work, info):
        gone = iter(("m3", "m5", "m7"))

        async def change_view(doing: str) -> None:
            if doing == "saving":
                assert isinstance(await compactor.page_in(work, info, next(gone)), Compaction)

        outcome = await compactor.compress(work, info, Ask(reason="again", force=True), change_view)
        assert isinstance(outcome, Failed)
        assert dict((await compactor.read_stats(work, info)).events)[FALLBACK] == 1
    assert len(model.spans) == 1
