"""Long scripted runs through the kit: every request is one that the provider accepts."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from mcp_compaction.formats.turns import split_turns
from tests.adapters.kits import LONG_WAYS, WINDOW, kit_of
from tests.adapters.scripted import (
    BoundModel,
    ScriptedModel,
    Step,
    blocks_of,
    run_loop,
    think,
    use,
)
from tests.checkers import Json, changed_thinking

pytestmark = pytest.mark.anyio

RULE = "Never run migrations against prod; only staging."


def script(turns: int, every: int) -> list[Step]:
    """Turns with thinking and one to three calls at once; now and then the agent compresses."""
    steps: list[Step] = []
    for turn in range(1, turns + 1):
        calls = [
            use(f"t{turn}-{n}", "Read", path=f"src/part_{turn}_{n}.py") for n in range(turn % 3 + 1)
        ]
        if turn % every == 0:
            done = use(f"t{turn}-c", "compress_context", reason=f"part {turn} read", force=True)
            calls.insert(turn % 2, done)
        steps.append([think(f"Turn {turn}: read on."), *calls])
    return steps


def read(call: Json) -> str:
    """The result of a call of the script."""
    return f"{call['input']['path']}\n" + f"def work_{call['id']}(): return 1\n" * 9


@pytest.mark.parametrize("way", LONG_WAYS)
async def test_a_run_of_40_turns_with_3_compactions_sends_only_what_the_provider_accepts(
    memory_path: Path, way: str
) -> None:
    await check_run(memory_path, way, turns=40, every=12)


@pytest.mark.slow
@pytest.mark.parametrize("way", LONG_WAYS)
async def test_a_run_of_300_turns_with_20_compactions_sends_only_what_the_provider_accepts(
    memory_path: Path, way: str
) -> None:
    await check_run(memory_path, way, turns=300, every=15)


async def check_run(folder: Path, way: str, turns: int, every: int) -> None:
    """Run a loop against the strict model, and hold all that it sent against each other."""
    model = ScriptedModel(script(turns, every))
    asked: Json = {"role": "user", "content": f"Read all parts. {RULE}"}
    async with kit_of(way, folder) as kit:
        messages = await run_loop(kit, model, [asked], read, marks=True)
        assert kit.failures == 0
    assert len(model.requests) == turns + 1
    receipts = [
        block["content"]
        for request in model.requests
        for block in blocks_of(request[-1])
        if "done: " in str(block.get("content")) and "-c" in block["tool_use_id"]
    ]
    assert len(receipts) == turns // every, receipts
    assert all(split_turns(request)[0] == asked for request in model.requests)
    said = [one for request in model.requests for one in request]
    assert not changed_thinking(said, messages)
    compacted = 0
    for before, now in pairwise(model.requests):
        if not _is_compacted(before, now):
            assert all(one is other for one, other in zip(before[1:], now[1:], strict=False))
            continue
        compacted += 1
        known = {id(one) for one in before}
        assert now[-1] is not None
        kept = [one for one in now if id(one) in known]
        assert len(kept) >= 3  # the newest turns, the very objects
    assert compacted == turns // every
    for (before, texts), (now, later) in pairwise(zip(model.requests, model.texts, strict=True)):
        if not _is_compacted(before, now):
            assert later[: len(texts)] == texts


def _is_compacted(before: list[Json], now: list[Json]) -> bool:
    return len(now) <= len(before)


@pytest.mark.parametrize("way", LONG_WAYS)
async def test_a_run_of_40_turns_on_a_model_that_binds_its_thinking_is_never_refused(
    memory_path: Path, way: str
) -> None:
    await check_bound_run(memory_path, way, turns=40, every=12)


@pytest.mark.slow
@pytest.mark.parametrize("way", LONG_WAYS)
async def test_a_run_of_300_turns_on_a_model_that_binds_its_thinking_is_never_refused(
    memory_path: Path, way: str
) -> None:
    await check_bound_run(memory_path, way, turns=300, every=15)


async def check_bound_run(folder: Path, way: str, turns: int, every: int) -> None:
    """Run a loop with compactions and pins; every block that is still good is sent back."""
    model = BoundModel(script(turns, every))
    model.steps[3].append(use("pin", "pin_constraint", text=RULE))
    asked: Json = {"role": "user", "content": f"Read all parts. {RULE}"}
    async with kit_of(way, folder) as kit:
        await run_loop(kit, model, [asked], read, marks=True)
        assert kit.failures == 0
    assert len(model.requests) == turns + 1
    assert model.thinking.faults == []
    assert model.thinking.kept > turns
    assert RULE in "".join(model.texts[-1])
    assert max(sum(map(len, texts)) for texts in model.texts) < 4 * WINDOW


@pytest.mark.parametrize("way", LONG_WAYS)
async def test_a_model_that_nobody_knows_is_sent_all_until_it_refuses_and_that_is_remembered(
    memory_path: Path, way: str
) -> None:
    model = BoundModel(script(30, 8), name="next-1")
    asked: Json = {"role": "user", "content": f"Read all parts. {RULE}"}
    async with kit_of(way, memory_path) as kit:
        messages = await run_loop(kit, model, [asked], read)
        assert kit.failures == 0
        assert model.refused == 1
    assert len(model.requests) == 31
    model.steps = script(10, 5)
    async with kit_of(way, memory_path) as kit:
        await run_loop(kit, model, [*messages, {"role": "user", "content": "Again."}], read)
        assert kit.failures == 0
    assert model.refused == 1
