"""Kits on real stores: in this process, and over MCP to a server in memory."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mcp_compaction import open_store
from mcp_compaction.adapters.loop import LoopKit
from tests.adapters.scripted import use
from tests.checkers import Json
from tests.server.talking import talk

WAYS = ("in process", "over MCP")
LONG_WAYS = ("in process", pytest.param("over MCP", marks=pytest.mark.thorough))
RULE = "Never run migrations against prod; only staging."
WINDOW = 10_000  # tokens, as the server of the tests has it


@asynccontextmanager
async def kit_of(
    way: str, folder: Path, *, by_agent: bool = True, **options: Any
) -> AsyncGenerator[LoopKit]:
    """A kit on the session `loop` of a store in that folder."""
    if way == "in process":
        async with open_store(
            home=folder / "store",
            project="/p",
            window_tokens=WINDOW,
            counter="estimate",
            reserve_tokens=0,
            agent_controlled=by_agent,
        ) as store:
            yield LoopKit(await store.session("loop"), **options)
    else:
        async with talk(folder, policy={"agent_controlled": str(by_agent).lower()}) as server:
            yield LoopKit(server.client, session="loop", **options)


def user(text: str) -> Json:
    """A message of the user's."""
    return {"role": "user", "content": text}


def step(number: int, text: str) -> list[Json]:
    """A call and its result."""
    result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": text}
    return [
        {"role": "assistant", "content": [use(f"t{number}", "Read", path=f"{number}.py")]},
        {"role": "user", "content": [result]},
    ]


def history(steps: int, lines: int = 60) -> list[Json]:
    """A request and the steps after it."""
    said = [user(f"Read on. {RULE}")]
    for number in range(steps):
        said += step(number, f"row of file {number}\n" * lines)
    return said


def text_of(messages: list[Json]) -> str:
    """Messages as JSON."""
    return json.dumps(messages, ensure_ascii=False)
