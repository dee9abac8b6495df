"""The fill after a provider reported usage: what it said, and an estimate of what came since."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mcp_compaction import compactor
from mcp_compaction.core.policy import Policy
from mcp_compaction.core.tokens import estimate
from mcp_compaction.formats import read_incoming
from mcp_compaction.model import Ask, Compaction, Traits
from tests.compactor.small_session import assistant, open_session, record_long, user

pytestmark = pytest.mark.anyio


def talk(number: int = 200) -> list[dict[str, Any]]:
    return [user(f"short {n}") if n % 2 else assistant(f"ok {n}") for n in range(1, number)]


def answer_with(**usage: int) -> dict[str, Any]:
    return {**assistant("done"), "usage": usage}


@pytest.mark.thorough
@pytest.mark.parametrize("owns_window", [True, False])
@pytest.mark.parametrize("model", [None, "claude-opus-4-8"])
@pytest.mark.parametrize("reported", [300, 4_000, 60_000])
async def test_right_after_a_provider_counted_the_fill_is_what_it_said(
    tmp_path: Path, owns_window: bool, model: str | None, reported: int
) -> None:
    async with open_session(tmp_path, policy=Policy()) as (work, info):
        await work.store.set_traits(info.id, Traits(owns_window=owns_window, model=model))
        info = await compactor.find_session(work, "/p", "work")
        for _ in range(3):  # the first report must not change how the next one is taken
            said = [*talk(), answer_with(input_tokens=reported - 100, output_tokens=100)]
            await compactor.record(work, info, read_incoming(said))
            fill = (await work.read_window(info)).fill
            assert abs(fill.tokens - reported) <= 2
            stats = await compactor.read_stats(work, info)
            assert stats.fill.tokens == fill.tokens


async def test_what_comes_after_a_report_is_estimated_on_top_of_it(tmp_path: Path) -> None:
    async with open_session(tmp_path, policy=Policy()) as (work, info):
        await work.store.set_traits(info.id, Traits(owns_window=False, model="gpt-5"))
        said, later = [*talk(), answer_with(input_tokens=60_000)], user("word " * 1_000)
        await compactor.record(work, info, read_incoming([*said, later]))
        size = estimate("word " * 1_000)
        assert abs((await work.read_window(info)).fill.tokens - 60_000 - size) < 10
        await compactor.record(work, info, read_incoming([later]))
        assert abs((await work.read_window(info)).fill.tokens - 60_000 - 2 * size) < 15


async def test_the_view_for_a_host_is_planned_by_itself_and_not_by_what_the_host_still_shows(
    tmp_path: Path,
) -> None:
    async with open_session(tmp_path) as (work, info):
        await work.store.set_traits(info.id, Traits(owns_window=False))
        await record_long(work, info)
        assert isinstance(await compactor.compress(work, info, Ask(reason="one")), Compaction)
        await record_long(work, info, steps=20)
        await compactor.record(work, info, read_incoming([answer_with(input_tokens=5_900)]))
        assert abs((await work.read_window(info)).fill.tokens - 5_900) <= 2
        outcome = await compactor.compress(work, info, Ask(reason="two", force=True))
        assert isinstance(outcome, Compaction)
        assert outcome.receipt.after < 4_000


async def test_the_window_of_a_host_is_as_full_after_a_compaction_as_before(tmp_path: Path) -> None:
    async with open_session(tmp_path) as (work, info):
        await work.store.set_traits(info.id, Traits(owns_window=False))
        await record_long(work, info)
        await compactor.record(work, info, read_incoming([answer_with(input_tokens=5_800)]))
        outcome = await compactor.compress(work, info, Ask(reason="test"))
        assert isinstance(outcome, Compaction)
        assert outcome.receipt.before == 5_800
        assert outcome.receipt.after < 4_000
        assert abs((await work.read_window(info)).fill.tokens - 5_800) <= 2
        await compactor.restore(work, info, outcome.receipt.ref, force=True)
        assert abs((await work.read_window(info)).fill.tokens - 5_800) <= 2
        # Then the host has compacted, and its next answer says so.
        await compactor.record(work, info, read_incoming([answer_with(input_tokens=900)]))
        assert abs((await work.read_window(info)).fill.tokens - 900) <= 2
