"""A loop in a window of 30,000 tokens: the agent compresses when it asks, the net acts rarely."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mcp_compaction import open_store
from mcp_compaction.adapters.loop import LoopKit
from mcp_compaction.compactor.results import SAFETY_NET
from tests.adapters.scripted import ScriptedModel, Step, blocks_of, run_loop, use
from tests.checkers import Json

pytestmark = pytest.mark.anyio

REQUESTS = 63
PART = 7  # steps: some files are read, the tests are run, and the agent compresses


def script(*, compresses: bool) -> list[Step]:
    """The steps of an agent that works through the parts of a project."""
    steps: list[Step] = []
    for number in range(1, REQUESTS):
        if number % PART == PART - 1:
            steps.append([use(f"t{number}", "Bash", command="pytest -q")])
        elif number % PART == 0 and compresses:
            reason = f"part {number // PART} is done"
            done = use(f"c{number}", "compress_context", reason=reason, target_percent=25)
            steps.append([done])
        else:
            steps.append([use(f"t{number}", "Read", path=f"src/part_{number}.py")])
    return steps


def read(call: Json, lines: int) -> str:
    """The result of a call: a file of about ten tokens a line."""
    given = call["input"]
    if "command" in given:
        return "12 passed in 0.41s"
    code = (f"{n:>5}\tdef fn_{n}(x): return x * {n * 7919 % 9973}  # row" for n in range(lines))
    return given["path"] + "\n" + "\n".join(code)


@pytest.mark.parametrize("lines", [100, pytest.param(250, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("compresses", [True, False])
async def test_the_net_acts_at_most_12_times_in_63_requests_and_the_agents_calls_are_taken(
    memory_path: Path, compresses: bool, lines: int
) -> None:
    model = ScriptedModel(script(compresses=compresses))
    asked: Json = {"role": "user", "content": "Read all parts and improve them."}
    async with open_store(
        home=memory_path, project="/p", window_tokens=30_000, counter="estimate"
    ) as store:
        session = await store.session("loop")
        kit = LoopKit(session)
        await run_loop(kit, model, [asked], lambda call: read(call, lines))
        stats = await session.stats()
    assert kit.failures == 0
    assert len(model.requests) == REQUESTS
    shown = "".join(
        str(block.get("text"))
        for one in model.requests
        for said in one
        for block in blocks_of(said)
    )
    assert not re.search(r"\[digest [^\n]*(\n\[|$)", shown), "an empty digest"
    nets = dict(stats.events).get(SAFETY_NET, 0)
    assert nets <= 12
    answers = [
        str(block["content"])
        for request in model.requests
        for block in blocks_of(request[-1])
        if str(block.get("tool_use_id", "")).startswith("c")
    ]
    if compresses:
        # There is nothing to gain where the net has just acted, or after the first small part.
        refused = [answer for answer in answers if " done: " not in answer]
        assert len(refused) <= 1 + nets, refused
        assert nets <= 2
