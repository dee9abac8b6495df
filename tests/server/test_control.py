"""A server where the system decides when to compress: the agent is not told to do it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from mcp_compaction.server.app import INSTRUCTIONS_BY_SYSTEM
from tests.core.saying import ran
from tests.server.talking import ERAS, Era, talk
from tests.strategies import coding_session

pytestmark = pytest.mark.anyio

SYSTEM = {"agent_controlled": "false"}
LONG = coding_session(40, 300)
TELLS_TO_COMPRESS = re.compile(r"compress_context|compress (?:now|at)|to compress\b|force=true")


@pytest.mark.parametrize("era", ERAS)
async def test_compress_context_is_not_offered_and_the_others_stay(
    tmp_path: Path, era: Era
) -> None:
    async with talk(tmp_path, era) as chat:
        every = [tool.name for tool in (await chat.client.list_tools()).tools]
    async with talk(tmp_path, era, policy=SYSTEM) as chat:
        tools = (await chat.client.list_tools()).tools
        assert [tool.name for tool in tools] == [name for name in every if name[:4] != "comp"]
        assert not TELLS_TO_COMPRESS.search("\n".join(tool.description or "" for tool in tools))
        assert chat.client.instructions == INSTRUCTIONS_BY_SYSTEM
        assert [prompt.name for prompt in (await chat.client.list_prompts()).prompts] == [
            "resume",
            "pin",
        ]
    async with talk(tmp_path, era, policy=SYSTEM, only_core=True) as chat:
        assert [tool.name for tool in (await chat.client.list_tools()).tools] == every[1:4]


async def test_no_answer_tells_the_agent_to_compress(tmp_path: Path) -> None:
    async with talk(tmp_path, policy={**SYSTEM, "reserve_tokens": "8000"}) as chat:
        said = [
            await chat.fail("recall_archived"),
            await chat.fail("restore_context", ref="c1", session="no"),
            await chat.say("context_stats"),
            await chat.say("record_messages", messages=LONG[:17], session="loop"),
            await chat.say("context_stats", session="loop"),
        ]
        assert "% full: the system compacts at 75 %, where only the reserve is free" in said[-1]
        done = ran("green", "pytest -q", "5 passed in 1s")
        said.append(await chat.say("record_messages", messages=done, session="loop"))
        said.append(await chat.say("context_stats", session="loop", detail="full"))
        assert "tests green: a boundary\n" in said[-1]
        assert [text for text in said if TELLS_TO_COMPRESS.search(text)] == []


async def test_the_system_waits_for_green_tests_and_then_brings_the_directive(
    tmp_path: Path,
) -> None:
    early = {**SYSTEM, "fill_threshold_percent": "40", "release_percent": "20"}
    async with talk(tmp_path, policy=early) as chat:
        talked = [
            {"role": role, "content": f"The shelf {n} has {role} parts. " * 20}
            for n in range(18)
            for role in ("user", "assistant")
        ]
        said = await chat.say("record_messages", messages=talked, session="loop")
        assert "under way" not in said
        assert "from 40 % on at a boundary, at 95 % at once" in await chat.say(
            "context_stats", session="loop"
        )
        done = ran("green", "pytest -q", "5 passed in 1s")
        said = await chat.say("record_messages", messages=done, session="loop")
        assert "a compaction is under way" in said
        result = await chat.call("pin_constraint", text="Keep it small.", session="loop")
        for _ in range(1_000):  # its end is told in an answer: there is nothing else to wait for
            if "compaction_directive" in (result.meta or {}):
                break
            result = await chat.call("pin_constraint", text="Keep it small.", session="loop")
        assert result.meta is not None
        assert result.meta["compaction_directive"] is True
        assert "5 passed" in json.dumps(json.loads(await chat.read("loop/context")))
