"""However often a session is compressed, its originals and its pins stay what they were."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mcp_compaction import compactor
from mcp_compaction.compactor.results import PinWish
from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.core.policy import Policy
from mcp_compaction.counters.o200k import EstimateCounter
from mcp_compaction.formats import read_incoming
from mcp_compaction.model import Ask, Compaction, SessionInfo, Traits
from mcp_compaction.ports import SessionKey
from mcp_compaction.store.sqlite import open_store
from mcp_compaction.summarizers.extractive import ExtractiveSummarizer
from mcp_compaction.wiring import SystemClock
from tests.strategies import coding_session

pytestmark = pytest.mark.anyio

TIMES = 50
PIN = 'Never push to main; only "ångström" — byte for byte.'


@pytest.mark.slow
async def test_after_fifty_compactions_every_original_is_there_byte_for_byte(
    tmp_path: Path,
) -> None:
    told = coding_session(20 * TIMES, 40)
    work = Workspace(
        store=await open_store(tmp_path / "store.db"),
        summarizer=ExtractiveSummarizer(),
        counter=EstimateCounter(),
        clock=SystemClock(),
        policy=Policy(window_tokens=8_000),
    )
    try:
        key = SessionKey(project="/p", name="long")
        info, _ = await compactor.open_session(work, key, Traits(owns_window=True))
        await compactor.pin(work, info, PinWish(PIN, by="user"))
        first = await recorded(work, info)
        done = 0
        while done < TIMES:
            start = len(first)
            await compactor.record(work, info, read_incoming(told[start : start + 16]))
            first |= await recorded(work, info, after=start)
            outcome = await compactor.compress(work, info, Ask(reason="again", force=True))
            done += isinstance(outcome, Compaction)
            if done:
                shown = json.dumps(await compactor.context(work, info))
                assert f"by user: {json.dumps(PIN)[1:-1]}" in shown
        assert await recorded(work, info) == first
        assert [json.loads(raw) for raw in first.values()] == told[: len(first)]
    finally:
        await work.store.close()


async def recorded(work: Workspace, info: SessionInfo, after: int = 0) -> dict[int, str]:
    """The originals of a session by their numbers."""
    newest = (await work.load(info)).info.messages
    if newest == after:
        return {}
    found = await compactor.originals(work, info, f"m{after + 1}..m{newest}")
    return {original.message.seq: original.message.raw for original in found}
