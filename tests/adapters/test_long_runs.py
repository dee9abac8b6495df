"""Long scripted runs through the kit: every request is one that the provider accepts."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from mcp_compaction import open_store
from mcp_compaction.adapters.loop import LoopKit
from tests.adapters.scripted import ScriptedModel, Step, run_loop, think, use
from tests.checkers import Json, changed_thinking
from tests.server.talking import talk

pytestmark = pytest.mark.anyio

TURNS = 300
EVERY = 15  # turns after which the agent compresses: twenty times
RULE = "Never run migrations against prod; only staging."


@asynccontextmanager
async def kit_of(way: str, folder: Path) -> AsyncGenerator[LoopKit]:
    """A kit on a session in this process, or over MCP."""
    if way == "in process":
        async with open_store(
            home=folder / "store", project="/p", window_tokens=30_000, counter="estimate"
        ) as store:
            yield LoopKit(await store.session("long"))
    else:
        async with talk(folder) as server:
            yield LoopKit(server.client, session="long")


def script() -> list[Step]:
    """Turns with thinking and one to three calls at once; now and then the agent compresses."""
    steps: list[Step] = []
    for turn in range(1, TURNS + 1):
        calls = [
            use(f"t{turn}-{n}", "Read", path=f"src/part_{turn}_{n}.py") for n in range(turn % 3 + 1)
        ]
        if turn % EVERY == 0:
            done = use(f"t{turn}-c", "compress_context", reason=f"part {turn} read", force=True)
            calls.insert(turn % 2, done)
        steps.append([think(f"Turn {turn}: read on."), *calls])
    return steps


def read(call: Json) -> str:
    """The result of a call of the script."""
    return f"{call['input']['path']}\n" + f"def work_{call['id']}(): return 1\n" * 12


@pytest.mark.parametrize("way", ["in process", "over MCP"])
async def test_300_turns_with_20_compactions_send_only_what_the_provider_accepts(
    tmp_path: Path, way: str
) -> None:
    model = ScriptedModel(script())
    asked: Json = {"role": "user", "content": f"Read all parts. {RULE}"}
    async with kit_of(way, tmp_path) as kit:
        messages = await run_loop(kit, model, [asked], read, marks=True)
        assert kit.failures == 0
    assert len(model.requests) == TURNS + 1
    receipts = [
        block["content"]
        for request in model.requests
        for block in _blocks(request[-1])
        if "done: " in str(block.get("content")) and "-c" in block["tool_use_id"]
    ]
    assert len(receipts) == TURNS // EVERY, receipts
    assert all(request[0] is asked for request in model.requests)
    said = [one for request in model.requests for one in request]
    assert not changed_thinking(said, messages)
    compacted = 0
    for before, now in pairwise(model.requests):
        if not _is_compacted(before, now):
            assert all(one is other for one, other in zip(before, now, strict=False))
            continue
        compacted += 1
        known = {id(one) for one in before}
        assert now[-1] is not None
        kept = [one for one in now if id(one) in known]
        assert len(kept) >= 3  # the request and the newest turns, the very objects
    assert compacted == TURNS // EVERY
    for (before, texts), (now, later) in pairwise(zip(model.requests, model.texts, strict=True)):
        if not _is_compacted(before, now):
            assert later[: len(texts)] == texts


def _is_compacted(before: list[Json], now: list[Json]) -> bool:
    return len(now) <= len(before)


def _blocks(message: Json) -> list[Json]:
    return message["content"] if isinstance(message["content"], list) else []
