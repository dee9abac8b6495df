"""Kits on real stores: in this process, and over MCP to a server in memory."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mcp_compaction import open_store
from mcp_compaction.adapters.loop import LoopKit
from tests.server.talking import talk

WAYS = ("in process", "over MCP")
WINDOW = 10_000  # tokens, as the server of the tests has it


@asynccontextmanager
async def kit_of(way: str, folder: Path, **options: Any) -> AsyncGenerator[LoopKit]:
    """A kit on the session `loop` of a store in that folder."""
    if way == "in process":
        async with open_store(
            home=folder / "store",
            project="/p",
            window_tokens=WINDOW,
            counter="estimate",
            reserve_tokens=0,
        ) as store:
            yield LoopKit(await store.session("loop"), **options)
    else:
        async with talk(folder) as server:
            yield LoopKit(server.client, session="loop", **options)
