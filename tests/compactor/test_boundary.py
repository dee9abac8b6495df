"""The system compacts at a boundary between its threshold and the net, and at the net at once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from mcp_compaction import compactor
from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.core.policy import Policy
from mcp_compaction.formats import read_incoming
from mcp_compaction.model import Compaction, SessionInfo, Traits
from mcp_compaction.store.sqlite import SqliteStore
from tests.compactor.small_session import open_session
from tests.core.saying import assistant, call, ran, user

pytestmark = pytest.mark.anyio

POLICY = Policy(
    agent_controlled=False,
    window_tokens=10_000,
    fill_threshold_percent=40,
    safety_threshold_percent=70,
    release_percent=20,
)
GREEN = ran("green", "pytest -q", "5 passed in 1s")


async def record(work: Workspace, info: SessionInfo, said: Sequence[dict[str, Any]]) -> None:
    await compactor.record(work, info, read_incoming([*said]))


async def talk_until(work: Workspace, info: SessionInfo, percent: float) -> None:
    """Talk of nothing that ends, until the window is so full."""
    turn = 0
    while (await work.read_window(info)).fill.percent < percent:
        turn += 1
        words = f"Turn {turn} of {percent}: " + f"the part number {turn} is on shelf {turn}. " * 30
        await record(work, info, [user(words), assistant(f"Noted {turn} of {percent}.")])


async def test_the_system_waits_for_a_boundary_past_its_threshold(tmp_path: Path) -> None:
    async with open_session(tmp_path, policy=POLICY) as (work, info):
        await talk_until(work, info, 41)
        assert (await compactor.read_stats(work, info)).pressure.level == "wait"
        assert await compactor.fill_to_relieve(work, info) is None
        assert await compactor.relieve(work, info) is None
        await record(work, info, GREEN)
        assert await compactor.fill_to_relieve(work, info) is not None
        assert isinstance(await compactor.relieve(work, info), Compaction)


async def test_an_open_call_is_no_boundary(tmp_path: Path) -> None:
    async with open_session(tmp_path, policy=POLICY) as (work, info):
        await talk_until(work, info, 41)
        await record(work, info, [*GREEN, call("push", "Bash", command="git push")])
        assert await compactor.relieve(work, info) is None


async def test_the_system_waits_for_nothing_at_the_net(tmp_path: Path) -> None:
    async with open_session(tmp_path, policy=POLICY) as (work, info):
        await talk_until(work, info, 70)
        await record(work, info, [call("push", "Bash", command="git push")])
        assert isinstance(await compactor.relieve(work, info), Compaction)


async def test_the_reserve_is_a_net_too(tmp_path: Path) -> None:
    policy = POLICY.model_copy(update={"safety_threshold_percent": 95})
    async with open_session(tmp_path, policy=policy) as (work, info):
        await talk_until(work, info, 76)
        stats = await compactor.read_stats(work, info)
        assert (stats.pressure.level, stats.pressure.net_percent) == ("act", 75)
        assert isinstance(await compactor.relieve(work, info), Compaction)


async def test_no_message_is_read_below_the_threshold_and_no_session_loaded_while_it_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: object, **__: object) -> None:
        raise AssertionError("messages were read")

    async with open_session(tmp_path, policy=POLICY) as (work, info):
        monkeypatch.setattr(SqliteStore, "load", refuse)
        await talk_until(work, info, 41)
        assert await compactor.fill_to_relieve(work, info) is None
        wide = Traits(window_tokens=20_000)
        await work.store.set_traits(info.id, wide)
        monkeypatch.setattr(SqliteStore, "originals", refuse)
        assert await compactor.fill_to_relieve(work, info) is None
