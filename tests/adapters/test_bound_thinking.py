"""Frameworks on a model that binds its thinking: through their own clients, none is refused."""

# LangGraph's own types are partly unknown.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from agents import Agent as OpenAIAgent
from agents import ModelSettings, RunConfig, Runner, Usage, function_tool
from agents.items import ModelResponse
from agents.models.chatcmpl_converter import Converter
from agents.models.fake_id import FAKE_RESPONSES_ID
from agents.models.interface import Model
from langchain.agents import create_agent
from langchain_anthropic import ChatAnthropic
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseReasoningItem,
)
from pydantic_ai import Agent
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.usage import UsageLimits

from mcp_compaction import open_store
from mcp_compaction.adapters.langgraph import CompactedGraph, CompactionMiddleware
from mcp_compaction.adapters.openai_agents import CompactionSession
from mcp_compaction.adapters.pydantic_ai import CompactionCapability
from tests.adapters.bound_server import BOUND, BoundServer, serve_bound
from tests.checkers import Json

RULE = "Never run migrations against prod; only staging."
EVERY = 10  # calls after which the agent compresses
WINDOW = 8_000
LONG = pytest.param(300, marks=pytest.mark.slow)


def use(id: str, name: str, **arguments: Any) -> Json:
    return {"type": "tool_use", "id": id, "name": name, "input": arguments}


def reader(turns: int) -> Callable[[int], list[Json]]:
    """A script that pins a rule, reads files, and compresses now and then."""

    def answer(step: int) -> list[Json]:
        if step > turns:
            return [{"type": "text", "text": "All read."}]
        if step == 1:
            return [use("c1", "pin_constraint", text=RULE)]
        calls = [use(f"c{step}", "read", path=f"orders_{step}.sql")]
        if step % EVERY == 0:
            reason = {"reason": "a part is read", "force": True}
            calls.append(use(f"c{step}-c", "compress_context", **reason))
        return calls

    return answer


def read(path: str) -> str:
    """Read a file."""
    return f"-- {path}\n" + f"ALTER TABLE {path.removesuffix('.sql')} ADD COLUMN note;\n" * 40


def check(model: BoundServer, turns: int) -> None:
    """None was refused, good thinking was sent back, the window stayed small, the rule is there."""
    assert model.refused == []
    assert model.thinking.faults == []
    assert len(model.bodies) == turns + 1
    assert model.thinking.kept > turns
    sizes = [len(json.dumps(body["messages"])) for body in model.bodies]
    assert max(sizes) < 5 * WINDOW
    assert all(RULE in json.dumps(body["messages"]) for body in model.bodies)
    assert sum(later < before for before, later in pairwise(sizes)) >= turns // 12


@pytest.mark.parametrize("turns", [35, LONG])
def test_an_agent_of_langchain_is_never_refused(memory_path: Path, turns: int) -> None:
    with (
        serve_bound(reader(turns)) as model,
        CompactionMiddleware(home=memory_path, project="/shop", window_tokens=WINDOW) as compaction,
    ):
        chat: Any = ChatAnthropic(model=BOUND, base_url=model.url, api_key="k", max_retries=0)  # pyright: ignore[reportCallIssue, reportArgumentType]
        agent: Any = create_agent(
            chat, [tool(read)], middleware=[compaction], checkpointer=InMemorySaver()
        )
        task = {"messages": [("user", f"Read all migrations. {RULE}")]}
        agent.invoke(task, {"configurable": {"thread_id": "1"}, "recursion_limit": 10 * turns})
        assert compaction.failures == 0
        check(model, turns)


@pytest.mark.parametrize("turns", [12, LONG])
def test_a_graph_of_long_life_is_never_refused(memory_path: Path, turns: int) -> None:
    def answer(step: int) -> list[Json]:
        if step % 3:
            return [use(f"c{step}", "read", path=f"orders_{step}.sql")]
        return [{"type": "text", "text": f"Read part {step}."}]

    with serve_bound(answer) as model:
        chat: Any = ChatAnthropic(model=BOUND, base_url=model.url, api_key="k", max_retries=0)  # pyright: ignore[reportCallIssue, reportArgumentType]
        graph: Any = create_agent(chat, [tool(read)], checkpointer=InMemorySaver())
        with CompactedGraph(
            graph, token_limit=2_500, home=memory_path, project="/shop", counter="estimate"
        ) as agent:
            config: Any = {"configurable": {"thread_id": "1"}}
            for turn in range(turns):
                agent.invoke({"messages": [("user", f"Read part {turn}. {RULE}")]}, config)
                if turn == turns // 2:
                    agent.pin("1", RULE)
        assert model.refused == []
        assert model.thinking.faults == []
        assert model.thinking.kept > turns
        assert max(len(json.dumps(body["messages"])) for body in model.bodies) < 40_000


@pytest.mark.anyio
@pytest.mark.parametrize("turns", [pytest.param(35, marks=pytest.mark.thorough), LONG])
async def test_an_agent_of_pydantic_ai_is_never_refused(memory_path: Path, turns: int) -> None:
    with serve_bound(reader(turns)) as server:
        provider = AnthropicProvider(api_key="k", base_url=server.url)
        model = AnthropicModel(BOUND, provider=provider)
        async with open_store(home=memory_path, project="/p", window_tokens=WINDOW) as store:
            compaction = CompactionCapability(await store.session("work"))
            agent = Agent(model, tools=[read], capabilities=[compaction], instructions="Be brief.")
            limits = UsageLimits(request_limit=2 * turns)
            result = await agent.run(f"Read all migrations. {RULE}", usage_limits=limits)
            assert result.output == "All read."
            assert compaction.failures == 0
        check(server, turns)


class LikeLiteLlm(Model):
    """A model of Anthropic's behind the SDK's own conversion, as its LiteLLM extension has it."""

    def __init__(self, server: BoundServer) -> None:
        self.model = f"anthropic/{BOUND}"
        self.server = server

    async def get_response(
        self,
        system_instructions: str | None,
        input: Any,
        model_settings: ModelSettings,
        tools: list[Any],
        *_: Any,
        **__: Any,
    ) -> ModelResponse:
        chat: Any = Converter.items_to_messages(
            input, model=self.model, preserve_thinking_blocks=True
        )
        body: Json = {"model": BOUND, "system": system_instructions or "", "messages": []}
        body["tools"] = [{"name": one.name} for one in tools]
        for message in chat:
            _add(body["messages"], message)
        status, said = self.server.take(json.loads(json.dumps(body)))
        assert status == 200, said
        return ModelResponse(output=self._items_of(said), usage=Usage(), response_id=None)

    def _items_of(self, said: Json) -> list[Any]:
        thought, *rest = said["content"]
        reasoning = ResponseReasoningItem(
            id=FAKE_RESPONSES_ID,
            type="reasoning",
            summary=[],
            content=[{"type": "reasoning_text", "text": thought["thinking"]}],  # pyright: ignore[reportArgumentType]
            encrypted_content=thought["signature"],
            provider_data={"model": self.model},  # pyright: ignore[reportCallIssue]
        )
        items: list[Any] = [reasoning]
        for block in rest:
            if block["type"] == "tool_use":
                call = ResponseFunctionToolCall(
                    arguments=json.dumps(block["input"]),
                    call_id=block["id"],
                    name=block["name"],
                    type="function_call",
                    provider_data={"model": self.model},  # pyright: ignore[reportCallIssue]
                )
                items.append(call)
            else:
                content: Any = [{"type": "output_text", "text": block["text"], "annotations": []}]
                message = ResponseOutputMessage(
                    id=FAKE_RESPONSES_ID,
                    type="message",
                    role="assistant",
                    status="completed",
                    content=content,
                )
                items.append(message)
        return items

    def stream_response(self, *args: Any, **options: Any) -> Any:
        raise NotImplementedError


def _add(messages: list[Json], message: Json) -> None:
    """Add a chat message as one of the Messages API."""
    if message["role"] == "tool":
        result = {"type": "tool_result", "tool_use_id": message["tool_call_id"]}
        result["content"] = message["content"]
        if messages[-1]["role"] == "assistant":
            messages.append({"role": "user", "content": []})
        messages[-1]["content"].append(result)
        return
    content: Any = message.get("content") or []
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
    for call in message.get("tool_calls") or []:
        function = call["function"]
        blocks.append(use(call["id"], function["name"], **json.loads(function["arguments"])))
    messages.append({"role": message["role"], "content": blocks})


@pytest.mark.anyio
@pytest.mark.parametrize("turns", [pytest.param(35, marks=pytest.mark.thorough), LONG])
async def test_an_agent_of_openais_sdk_is_never_refused(memory_path: Path, turns: int) -> None:
    server = BoundServer(reader(turns))
    async with open_store(home=memory_path, project="/p", window_tokens=WINDOW) as store:
        memory = CompactionSession(await store.session("work"))
        agent = OpenAIAgent(
            name="clerk", model=LikeLiteLlm(server), tools=[function_tool(read), *memory.tools]
        )
        config = RunConfig(call_model_input_filter=memory.fit_input, tracing_disabled=True)
        done = await Runner.run(
            agent,
            f"Read all migrations. {RULE}",
            session=memory,
            run_config=config,
            max_turns=2 * turns,
        )
        assert done.final_output == "All read."
        assert memory.failures == 0
    check(server, turns)
