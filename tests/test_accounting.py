"""What summarizers take is counted apart, shown, and becomes budget pressure near a limit."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcp_compaction import compactor
from mcp_compaction.compactor.gauge import Stats
from mcp_compaction.compactor.results import FALLBACK
from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.core.digest.allowance import Limits
from mcp_compaction.core.digest.extract import extract
from mcp_compaction.core.policy import Policy
from mcp_compaction.counters.o200k import EstimateCounter
from mcp_compaction.errors import SummarizerError
from mcp_compaction.formats import read_incoming
from mcp_compaction.model import Ask, Compaction, Draft, ModelCall, SummaryRequest
from mcp_compaction.ports import SessionKey, Summarizer
from mcp_compaction.store.sqlite import open_store
from mcp_compaction.tools import answers
from mcp_compaction.wiring import SystemClock
from tests.strategies import coding_session

pytestmark = pytest.mark.anyio

CALL = ModelCall(
    model="model-x",
    seconds=1.5,
    input_tokens=2_000,
    output_tokens=300,
    cached_tokens=500,
    cost=0.01,
)
POLICY = Policy(window_tokens=6_000, reserve_tokens=0)


class Paid:
    """A model of which every answer is the same call."""

    name = "paid"

    async def summarize(self, request: SummaryRequest) -> Draft:
        return extract(request).model_copy(update={"author": "model-x", "calls": (CALL,)})


class Failing:
    """A model whose every call fails."""

    name = "failing"

    async def summarize(self, request: SummaryRequest) -> Draft:
        reason = "the endpoint refused the key (HTTP 401)"
        raise SummarizerError(reason, (CALL.model_copy(update={"failed": reason}),))


async def stats_after(
    folder: Path, summarizer: Summarizer, limits: Limits | None = None, *, compress: bool = True
) -> Stats:
    """The stats of a session that was compressed once by that summarizer."""
    work = Workspace(
        store=await open_store(folder / "store.db"),
        summarizer=summarizer,
        counter=EstimateCounter(),
        clock=SystemClock(),
        policy=POLICY,
        limits=limits or Limits(),
    )
    try:
        info, _ = await compactor.open_session(work, SessionKey(project="/p", name="work"))
        await compactor.record(work, info, read_incoming(coding_session(40, 400)))
        if compress:
            done = await compactor.compress(work, info, Ask(reason="done"))
            assert isinstance(done, Compaction)
        return await compactor.read_stats(work, info)
    finally:
        await work.store.close()


async def test_what_a_model_took_is_in_the_stats_and_in_one_line_of_the_tool(
    tmp_path: Path,
) -> None:
    stats = await stats_after(tmp_path, Paid())
    calls = stats.system.calls
    assert calls > 0
    assert stats.system.input_tokens == 2_000 * calls
    assert stats.system.cost == pytest.approx(0.01 * calls)
    said = answers.stats_text(stats, "own", (), ())
    assert said.count("\nsystem: ") == 1
    assert "last fall" not in said


async def test_every_fall_is_counted_and_the_last_reason_told(tmp_path: Path) -> None:
    stats = await stats_after(tmp_path, Failing())
    assert stats.system.failed == stats.system.calls == dict(stats.events)[FALLBACK]
    said = answers.stats_text(stats, "own", (), ())
    assert f"\nfalls to another summarizer: {stats.system.calls}\n" in said
    assert "\nlast fall: failing failed: the endpoint refused the key (HTTP 401);" in said
    assert "CONTEXT_BUDGET" not in said


@pytest.mark.parametrize("limit", ["calls_per_hour", "cost_per_hour"])
async def test_a_limit_that_nears_makes_the_system_act_earlier(limit: str, tmp_path: Path) -> None:
    (tmp_path / "calm").mkdir()
    calm = await stats_after(tmp_path / "calm", Paid(), Limits(calls_per_hour=1_000))
    reached = {"calls_per_hour": calm.system.calls, "cost_per_hour": calm.system.cost}
    pressed = await stats_after(tmp_path, Paid(), Limits.model_validate({limit: reached[limit]}))
    assert not calm.is_pressed
    assert pressed.is_pressed
    assert pressed.pressure.trigger_percent == calm.pressure.trigger_percent - 10
    assert "a limit on model calls is near" in answers.stats_text(pressed, "own", (), ())
