"""Agents of OpenAI's SDK keep their history here, and stay within their window."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, RunConfig, Runner, Usage, function_tool
from agents.items import ModelResponse
from agents.models.interface import Model
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

from mcp_compaction import OpenSession, open_store
from mcp_compaction.adapters.openai_agents import CompactionSession

pytestmark = pytest.mark.anyio

Json = dict[str, Any]
RULE = "Never run migrations against prod; only staging."
EVERY = 10  # calls after which the agent compresses


class ScriptedModel(Model):
    """A model that answers by a function, and refuses calls without results."""

    def __init__(self, answer: Callable[[int, list[Json]], list[Any]]) -> None:
        self.answer = answer
        self.seen: list[list[Json]] = []

    async def get_response(self, *args: Any, **options: Any) -> ModelResponse:
        given: Any = args[1] if len(args) > 1 else options["input"]
        items: list[Json] = [dict(one) for one in given]
        check_pairs(items)
        self.seen.append(items)
        output = self.answer(len(self.seen), items)
        return ModelResponse(output=output, usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **options: Any) -> Any:
        raise NotImplementedError


def check_pairs(items: list[Json]) -> None:
    """Refuse a call without its result, and a result without its call."""
    called = [one["call_id"] for one in items if one.get("type") == "function_call"]
    answered = [one["call_id"] for one in items if one.get("type") == "function_call_output"]
    assert sorted(called) == sorted(answered)


@function_tool
def read(path: str) -> str:
    """Read a file."""
    return f"-- {path}\n" + f"ALTER TABLE {path.removesuffix('.sql')} ADD COLUMN note;\n" * 40


def call(id: str, name: str, arguments: str) -> ResponseFunctionToolCall:
    return ResponseFunctionToolCall(
        type="function_call", call_id=id, name=name, arguments=arguments, id=f"fc_{id}"
    )


def say(text: str) -> ResponseOutputMessage:
    part = ResponseOutputText(type="output_text", text=text, annotations=[])
    return ResponseOutputMessage(
        id="msg_1", type="message", role="assistant", status="completed", content=[part]
    )


def reader(turns: int) -> Callable[[int, list[Json]], list[Any]]:
    def answer(step: int, items: list[Json]) -> list[Any]:
        if step > turns:
            return [say("All read.")]
        if step == 1:
            return [call("c1", "pin_constraint", f'{{"text": "{RULE}"}}')]
        calls = [call(f"c{step}", "read", f'{{"path": "orders_{step}.sql"}}')]
        if step % EVERY == 0:
            asked = '{"reason": "a part is read", "force": true}'
            calls.append(call(f"c{step}-c", "compress_context", asked))
        return calls

    return answer


async def run_agent(session: OpenSession, turns: int) -> tuple[ScriptedModel, CompactionSession]:
    memory = CompactionSession(session)
    model = ScriptedModel(reader(turns))
    agent = Agent(name="reader", model=model, tools=[read, *memory.tools])
    config = RunConfig(call_model_input_filter=memory.fit_input, tracing_disabled=True)
    done = await Runner.run(
        agent,
        f"Read all migrations. {RULE}",
        session=memory,
        run_config=config,
        max_turns=turns + 1,
    )
    assert done.final_output == "All read."
    assert memory.failures == 0
    return model, memory


def sizes(model: ScriptedModel) -> list[int]:
    return [len(str(items)) for items in model.seen]


async def test_the_history_is_there_in_another_process_and_goes_on(tmp_path: Path) -> None:
    async with open_store(home=tmp_path, project="/shop", window_tokens=8_000) as store:
        await run_agent(await store.session("migrations"), 12)
    async with open_store(home=tmp_path, project="/shop", window_tokens=8_000) as store:
        memory = CompactionSession(await store.session("migrations"))
        before = await memory.get_items()
        assert "[digest d" in str(before)
        model = ScriptedModel(lambda step, items: [say("I go on.")])
        config = RunConfig(call_model_input_filter=memory.fit_input, tracing_disabled=True)
        agent = Agent(name="reader", model=model)
        await Runner.run(agent, "And now?", session=memory, run_config=config)
        assert RULE in str(model.seen[0])
        assert "All read." in str(model.seen[0])
        assert (await memory.get_items())[: len(before)] == before


async def test_items_come_back_as_they_were_added_and_pop_leaves_a_tombstone(
    tmp_path: Path,
) -> None:
    async with open_store(home=tmp_path, project="/shop") as store:
        session = await store.session("chat")
        memory = CompactionSession(session)
        assert await memory.get_items() == []
        assert await memory.pop_item() is None
        items: list[Any] = [
            {"role": "user", "content": "What is 6 * 7?"},
            {"role": "assistant", "content": "It is 41."},
        ]
        await memory.add_items(items)
        assert await memory.get_items() == items
        assert await memory.get_items(limit=1) == items[1:]
        assert await memory.pop_item() == items[1]
        assert await memory.get_items() == items[:1]
        again = CompactionSession(session)
        assert await again.get_items() == items[:1]
        assert (await session.recall("It is 41")).hits  # the log keeps it


async def test_a_cleared_session_is_empty_for_everybody_and_stays_findable(tmp_path: Path) -> None:
    async with open_store(home=tmp_path, project="/shop") as store:
        session = await store.session("chat")
        memory = CompactionSession(session)
        await memory.add_items([{"role": "user", "content": "The port is 5433."}])
        await memory.clear_session()
        assert await memory.get_items() == []
        assert await CompactionSession(session).get_items() == []
        assert await memory.pop_item() is None
        new: list[Any] = [{"role": "user", "content": "Start anew."}]
        await memory.add_items(new)
        assert await CompactionSession(session).get_items() == new
        assert (await session.recall("5433")).hits


@pytest.mark.slow
async def test_a_run_of_100_turns_stays_under_its_window_and_keeps_its_pin(tmp_path: Path) -> None:
    async with open_store(home=tmp_path, project="/shop", window_tokens=8_000) as store:
        model, _ = await run_agent(await store.session("migrations"), 100)
    assert len(model.seen) == 101
    assert all(RULE in str(items) for items in model.seen)
    assert max(sizes(model)) / 4 < 8_000
