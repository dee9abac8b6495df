"""A provider refused a request as too large: what is learned of the window, on a real store."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcp_compaction.tools.compressing import plan_after_overflow
from tests.compactor.small_session import SMALL, open_session

pytestmark = pytest.mark.anyio

KNOWN = SMALL.window_tokens


@pytest.mark.parametrize(
    ("limit", "window"),
    [(None, KNOWN), (999, KNOWN), (1_000, 1_000), (KNOWN - 1, KNOWN - 1), (KNOWN + 1, KNOWN)],
)
async def test_a_window_is_learned_where_it_is_smaller_than_known_and_could_be_one(
    tmp_path: Path, limit: int | None, window: int
) -> None:
    async with open_session(tmp_path) as (work, info):
        info, _ = await plan_after_overflow(work, info, limit)
        assert (await work.read_window(info)).fill.window == window
