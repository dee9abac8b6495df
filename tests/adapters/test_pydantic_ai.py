"""Agents of Pydantic AI stay within their window, and keep their whole history."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent, ModelMessagesTypeAdapter
from pydantic_ai.capabilities import ProcessHistory
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import UsageLimits

from mcp_compaction import OpenSession, open_store
from mcp_compaction.adapters.pydantic_ai import CompactionCapability

pytestmark = pytest.mark.anyio

RULE = "Never run migrations against prod; only staging."
EVERY = 10  # calls after which the agent compresses


class Script:
    """A model that answers by a function, and refuses calls without results."""

    def __init__(self, answer: Callable[[int], list[Any]]) -> None:
        self.answer = answer
        self.seen: list[list[ModelMessage]] = []

    async def __call__(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        waiting: set[str] = set()
        for message in messages:
            if isinstance(message, ModelResponse):
                assert not waiting
                waiting = {p.tool_call_id for p in message.parts if isinstance(p, ToolCallPart)}
            else:
                results = [p.tool_call_id for p in message.parts if isinstance(p, ToolReturnPart)]
                assert set(results) == waiting
                waiting = set()
        self.seen.append(list(messages))
        return ModelResponse(parts=self.answer(len(self.seen)))


def read(path: str) -> str:
    """Read a file."""
    return f"-- {path}\n" + f"ALTER TABLE {path.removesuffix('.sql')} ADD COLUMN note;\n" * 40


def reader(turns: int) -> Callable[[int], list[Any]]:
    def answer(step: int) -> list[Any]:
        if step > turns:
            return [TextPart("All read.")]
        if step == 1:
            return [ToolCallPart("pin_constraint", {"text": RULE})]
        calls = [ToolCallPart("read", {"path": f"orders_{step}.sql"})]
        if step % EVERY == 0:
            asked = {"reason": "a part is read", "force": True}
            calls.append(ToolCallPart("compress_context", asked))
        return calls

    return answer


def text_of(messages: list[ModelMessage]) -> str:
    return ModelMessagesTypeAdapter.dump_json(messages).decode()


async def run_agent(
    session: OpenSession, turns: int, *, in_place: bool = False
) -> tuple[Script, Any]:
    compaction, script = CompactionCapability(session), Script(reader(turns))
    capabilities: list[Any] = [compaction]
    if in_place:
        capabilities = [ProcessHistory(compaction.process)]
    agent = Agent(
        FunctionModel(script),
        tools=[read],
        toolsets=[compaction.get_toolset()] if in_place else [],
        capabilities=capabilities,
    )
    limits = UsageLimits(request_limit=None)
    done = await agent.run(f"Read all migrations. {RULE}", usage_limits=limits)
    assert done.output == "All read."
    assert compaction.failures == 0
    return script, done


async def test_the_whole_history_or_the_compacted_one_is_recognized_when_it_comes_back(
    tmp_path: Path,
) -> None:
    async with open_store(home=tmp_path, project="/shop", window_tokens=8_000) as store:
        session = await store.session("migrations")
        script, done = await run_agent(session, 12)
        recorded = (await session.stats()).info.messages
        for history in (done.all_messages(), [*script.seen[-1], done.all_messages()[-1]]):
            again = Script(lambda step: [TextPart("I go on.")])
            agent = Agent(FunctionModel(again), capabilities=[CompactionCapability(session)])
            stored = ModelMessagesTypeAdapter.validate_json(text_of(history).encode())
            more = await agent.run("And now?", message_history=stored)
            assert [type(one) for one in more.new_messages()] == [ModelRequest, ModelResponse]
            assert text_of(again.seen[0]).count("[digest d1 of") == 1
            assert RULE in text_of(again.seen[0])
        assert (await session.stats()).info.messages <= recorded + 2 * 2 + 1


async def test_as_a_history_processor_it_replaces_the_history_of_the_run(tmp_path: Path) -> None:
    async with open_store(home=tmp_path, project="/shop", window_tokens=8_000) as store:
        script, done = await run_agent(await store.session("migrations"), 22, in_place=True)
    assert "[digest d" in text_of(done.all_messages())
    assert text_of(script.seen[-1]).count("a record, not instructions") < 9
    assert all(RULE in text_of(messages) for messages in script.seen)


async def test_a_failure_leaves_the_request_as_it_was(tmp_path: Path) -> None:
    async with open_store(home=tmp_path, project="/shop") as store:
        session = await store.session("chat")
    compaction = CompactionCapability(session)  # of a store that is closed
    script = Script(lambda step: [TextPart("Still here.")])
    agent = Agent(FunctionModel(script), capabilities=[compaction])
    assert (await agent.run("Hello?")).output == "Still here."
    assert compaction.failures == 1


@pytest.mark.slow
async def test_a_run_of_100_turns_stays_under_its_window_and_keeps_its_pin(tmp_path: Path) -> None:
    async with open_store(home=tmp_path, project="/shop", window_tokens=8_000) as store:
        script, done = await run_agent(await store.session("migrations"), 100)
    assert len(script.seen) == 101
    assert len(done.new_messages()) == 202
    assert all(RULE in text_of(messages) for messages in script.seen)
    parts = [[part for message in seen for part in message.parts] for seen in script.seen]
    assert max(sum(len(str(getattr(p, "content", ""))) for p in one) for one in parts) / 4 < 8_000
