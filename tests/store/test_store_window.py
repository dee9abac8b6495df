"""The store counts a window by what came since, and finds a pin's words without reading it all."""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path

import pytest
from given_store import NOW, batch, here, new_session, opened, said

from mcp_compaction.ports import WindowCount
from mcp_compaction.store.connect import connect
from mcp_compaction.store.load import count_window
from mcp_compaction.store.search import requests_with

pytestmark = pytest.mark.anyio


RULE = "Never deploy on a Friday afternoon without asking the on-call engineer first."


def steps_of(path: Path, work: Callable[[sqlite3.Connection], object]) -> int:
    """How many instructions SQLite runs for some work."""
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    with closing(connect(path, deadline=5)) as connection:
        connection.set_progress_handler(count, 1)
        work(connection)
    return steps


async def filled(path: Path, size: int) -> tuple[int, WindowCount]:
    """A session of so many messages, and its window as it was counted one message earlier."""
    async with opened(path) as store:
        session = await new_session(store)
        messages = [said(f"message number {n}") for n in range(size)]
        await store.append(session, batch(*messages), NOW)
        known = await store.count_window(session, NOW)
        await store.append(session, batch(said(RULE)), NOW)
        return session, known


async def count_anew(path: Path, size: int) -> int:
    session, known = await filled(path, size)
    return steps_of(path, lambda c: count_window(c, session, NOW, known))


async def look_for_rule(path: Path, size: int) -> int:
    session, _ = await filled(path, size)
    return steps_of(path, lambda c: requests_with(c, here(session), RULE, 20))


@pytest.mark.parametrize("cost_of", [count_anew, look_for_rule])
async def test_a_window_eighteen_times_as_long_costs_no_more_steps(
    cost_of: Callable[[Path, int], Awaitable[int]], tmp_path: Path
) -> None:
    small = await cost_of(tmp_path / "small.db", 50)
    large = await cost_of(tmp_path / "large.db", 900)
    assert small <= large < 2 * small
