"""An agent of `create_agent` looks after its own window."""

# LangGraph's own types are partly unknown.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from mcp_compaction.adapters.langgraph import CompactionMiddleware
from tests.adapters.langgraph.graphs import ScriptedModel, texts, thread

RULE = "Never run migrations against prod; only staging."
EVERY = 10  # calls after which the agent compresses


@tool
def read(path: str) -> str:
    """Read a file."""
    return f"-- {path}\n" + f"ALTER TABLE {path.removesuffix('.sql')} ADD COLUMN note;\n" * 40


def call(name: str, id: str, **args: Any) -> Any:
    return {"name": name, "args": args, "id": id, "type": "tool_call"}


class Reader:
    """A script that reads files, and compresses now and then."""

    def __init__(self, turns: int) -> None:
        self.turns = turns
        self.step = 0

    def __call__(self, messages: list[AnyMessage]) -> AIMessage:
        self.step += 1
        id = f"c{self.step}"
        if self.step > self.turns:
            return AIMessage("All read.")
        if self.step == 1:
            return AIMessage("", tool_calls=[call("pin_constraint", id, text=RULE)])
        calls = [call("read", id, path=f"orders_{self.step}.sql")]
        if self.step % EVERY == 0:
            calls.append(call("compress_context", f"{id}-c", reason="a part is read", force=True))
        return AIMessage("", tool_calls=calls)


def run_agent(home: Path, turns: int, **options: Any) -> tuple[ScriptedModel, Any]:
    model = ScriptedModel(answer=Reader(turns), seen=[])
    with CompactionMiddleware(home=home, project="/shop", **options) as compaction:
        agent: Any = create_agent(
            model, [read], middleware=[compaction], checkpointer=InMemorySaver()
        )
        task = {"messages": [("user", f"Read all migrations. {RULE}")]}
        agent.invoke(task, {**thread(), "recursion_limit": 10 * turns})
        assert compaction.failures == 0
        return model, agent


def test_the_agent_compresses_its_window_before_the_next_model_call(tmp_path: Path) -> None:
    model, agent = run_agent(tmp_path, 22, window_tokens=8_000)
    receipts = [
        message.text
        for message in agent.get_state(thread()).values["messages"]
        if isinstance(message, ToolMessage) and " done: " in message.text
    ]
    assert receipts
    sizes = [len(seen) for seen in model.seen]
    for place in (EVERY, 2 * EVERY):
        assert sizes[place] < sizes[place - 1]
    assert all(any(RULE in m.text for m in seen) for seen in model.seen)
    assert any(text.startswith("[digest d") for text in texts(agent, thread()))


def test_the_four_tools_are_offered_and_wrong_arguments_are_answered(tmp_path: Path) -> None:
    compaction = CompactionMiddleware(home=tmp_path)
    names = {one.name for one in compaction.tools}
    assert names >= {"compress_context", "pin_constraint", "recall_archived", "context_stats"}
    passive = CompactionMiddleware(home=tmp_path, agent_controlled=False)
    assert "compress_context" not in {one.name for one in passive.tools}

    def wrong(messages: list[AnyMessage]) -> AIMessage:
        if isinstance(messages[-1], HumanMessage):
            return AIMessage("", tool_calls=[call("compress_context", "1", dryrun=True)])
        return AIMessage("I see.")

    with compaction:
        agent: Any = create_agent(ScriptedModel(answer=wrong), [], middleware=[compaction])
        done = agent.invoke({"messages": [("user", "go")]}, thread())
    result = done["messages"][-2]
    assert isinstance(result, ToolMessage)
    assert result.status == "error"
    assert "dry_run" in result.text


@pytest.mark.anyio
async def test_it_works_the_same_with_an_event_loop(tmp_path: Path) -> None:
    model = ScriptedModel(answer=Reader(12), seen=[])
    async with CompactionMiddleware(
        home=tmp_path, session="shop", window_tokens=4_000
    ) as compaction:
        agent: Any = create_agent(model, [read], middleware=[compaction])
        done = await agent.ainvoke({"messages": [("user", f"Read. {RULE}")]})
        assert compaction.failures == 0
    assert any(message.text.startswith("[digest d") for message in done["messages"])


LIMIT = 8_000  # characters that the strict model takes


class TooLarge(Exception):
    """The refusal of a provider, in its words."""

    def __init__(self) -> None:
        super().__init__("This model's maximum context length is 2000 tokens. Please reduce it.")


def refuse_or_read(reader: Reader, refused: list[int]) -> Any:
    """A script that refuses what is too large for its model."""

    def answer(messages: list[AnyMessage]) -> AIMessage:
        size = sum(len(message.text) for message in messages)
        if size > LIMIT:
            refused.append(size)
            raise TooLarge
        return reader(messages)

    return answer


@pytest.mark.parametrize("is_async", [False, True])
def test_a_request_that_the_model_refuses_as_too_large_is_sent_once_more_and_smaller(
    is_async: bool, tmp_path: Path
) -> None:
    refused: list[int] = []
    model = ScriptedModel(answer=refuse_or_read(Reader(9), refused))
    with CompactionMiddleware(home=tmp_path, project="/shop", session="shop") as compaction:
        agent: Any = create_agent(model, [read], middleware=[compaction])
        task: Any = {"messages": [("user", f"Read all migrations. {RULE}")]}
        done = asyncio.run(agent.ainvoke(task)) if is_async else agent.invoke(task)
        assert compaction.failures == 0
    assert len(refused) == 1  # what was learned of the window holds from then on
    assert done["messages"][-1].text == "All read."
    assert any(RULE in message.text for message in done["messages"])
    assert sum(len(message.text) for message in done["messages"]) < LIMIT


def test_a_refusal_that_compressing_does_not_mend_and_another_error_are_the_callers(
    tmp_path: Path,
) -> None:
    def refuse(error: Exception) -> Any:
        def answer(messages: list[AnyMessage]) -> AIMessage:
            raise error

        return answer

    for error in (TooLarge(), ValueError("no such model")):
        model = ScriptedModel(answer=refuse(error))
        with CompactionMiddleware(home=tmp_path, session="shop") as compaction:
            agent: Any = create_agent(model, [read], middleware=[compaction])
            with pytest.raises(type(error)):
                agent.invoke({"messages": [("user", "Hello.")]})
        assert len(model.seen) == 1


@pytest.mark.slow
def test_a_run_of_100_turns_stays_under_its_window_and_keeps_its_pin(tmp_path: Path) -> None:
    model, _ = run_agent(tmp_path, 100, window_tokens=8_000)
    assert len(model.seen) == 101
    assert all(any(RULE in m.text for m in seen) for seen in model.seen)
    assert max(sum(len(m.text) for m in seen) / 4 for seen in model.seen) < 8_000
