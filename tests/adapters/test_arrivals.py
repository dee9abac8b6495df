"""Large results of a loop: previews from their arrival on, and only those that arrive."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.adapters.kits import WAYS, history, kit_of, step

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("way", WAYS)
async def test_a_large_result_that_came_before_stays_whole(memory_path: Path, way: str) -> None:
    before = [*history(1), *step(7, "one line\n" * 900)]
    messages = [*before, *step(8, "another line\n" * 900)]
    async with kit_of(way, memory_path, offload_over_tokens=None) as kit:
        assert await kit.fit(before) == before
    async with kit_of(way, memory_path, offload_over_tokens=1_000) as kit:
        sent = await kit.fit(messages)
        assert sent[:-1] == messages[:-1]
        assert "recall_archived refs" in str(sent[-1])
