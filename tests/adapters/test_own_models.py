"""The own model of a framework's agent writes the handover of a compaction."""

# LangGraph's own types are partly unknown.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import asyncio
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from agents import Agent as OpenAIAgent
from agents import RunConfig, Runner
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, AnyMessage
from langgraph.checkpoint.memory import InMemorySaver
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from mcp_compaction import open_store
from mcp_compaction.adapters.langgraph import CompactionMiddleware
from mcp_compaction.adapters.openai_agents import CompactionSession
from mcp_compaction.adapters.pydantic_ai import CompactionCapability
from mcp_compaction.errors import InputError
from mcp_compaction.summarizers.session_model import QUESTION
from tests.adapters import test_openai_agents as openai_agents
from tests.adapters import test_pydantic_ai as pydantic_agents
from tests.adapters.langgraph.graphs import ScriptedModel, thread
from tests.adapters.langgraph.test_middleware import Reader, read

pytestmark = pytest.mark.anyio

SAID = "Totals are kept in cents."
HANDOVER = f"""GOAL
- "{SAID}" goes for all files.
UNCERTAIN
- Nobody has said who reads file 3.
"""
SHOWN = "who reads file 3. [model says, up to m"
TURNS = 12
CHOSEN: dict[str, Any] = {"project": "/shop", "window_tokens": 8_000}


class Asked:
    """The requests of a run, by what stands in each: those that end with our question apart."""

    def __init__(self, handover: str = HANDOVER) -> None:
        self.handover = handover
        self.turns: list[list[str]] = []
        self.questions: list[list[str]] = []

    def answer(self, texts: list[str]) -> int | None:
        """Which step of the run a request is; None: it asks for the handover."""
        if texts[-1] == QUESTION:
            self.questions.append(texts)
            return None
        self.turns.append(texts)
        return len(self.turns)

    def check(self) -> None:
        """A question went out behind a request as it had been sent, and its answer was shown."""
        assert self.questions
        for asked in self.questions:
            # The newest answer, its result and the question are new.
            assert any(one == asked[: len(one)] for one in self.turns if len(one) >= len(asked) - 3)
        assert SHOWN in "\n".join(self.turns[-1])


def open_small(home: Path) -> Any:
    """A store for windows that are soon full."""
    return open_store(home=home, **CHOSEN)


async def run_pydantic_ai(home: Path, asked: Asked) -> None:
    """An agent of Pydantic AI that reads files."""
    script = pydantic_agents.reader(TURNS)

    async def answer(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        parts = [part for message in messages for part in message.parts]
        step = asked.answer([str(getattr(part, "content", part)) for part in parts])
        return ModelResponse(parts=[TextPart(asked.handover)] if step is None else script(step))

    async with open_small(home) as store:
        session = await store.session("migrations")
        compaction = CompactionCapability(session, summarizer="session")
        tools = [pydantic_agents.read]
        agent = Agent(FunctionModel(answer), tools=tools, capabilities=[compaction])
        await agent.run(SAID)
        assert not compaction.failures


async def run_openai_agents(home: Path, asked: Asked) -> None:
    """An agent of OpenAI's SDK that reads files."""
    script = openai_agents.reader(TURNS)

    def answer(_: int, items: list[Any]) -> list[Any]:
        step = asked.answer([str(one.get("content", one)) for one in items])
        return [openai_agents.say(asked.handover)] if step is None else script(step, items)

    async with open_small(home) as store:
        session = await store.session("migrations")
        memory = CompactionSession(session, summarizer="session")
        tools = [openai_agents.read, *memory.tools]
        agent = OpenAIAgent("reader", model=openai_agents.ScriptedModel(answer), tools=tools)
        config = RunConfig(call_model_input_filter=memory.fit_input, tracing_disabled=True)
        await Runner.run(agent, SAID, session=memory, run_config=config, max_turns=TURNS + 1)
        assert not memory.failures


def graph_of(asked: Asked, compaction: CompactionMiddleware) -> Any:
    """An agent of LangGraph that reads files."""
    script = Reader(TURNS)

    def answer(messages: list[AnyMessage]) -> AIMessage:
        step = asked.answer(
            [f"{message.text}{getattr(message, 'tool_calls', '')}" for message in messages]
        )
        return AIMessage(asked.handover) if step is None else script(messages)

    model = ScriptedModel(answer=answer)
    return create_agent(model, [read], middleware=[compaction], checkpointer=InMemorySaver())


async def run_langgraph(home: Path, asked: Asked) -> None:
    """An agent of LangGraph in the caller's event loop; what streams is what it said."""
    async with CompactionMiddleware(home=home, summarizer="session", **CHOSEN) as compaction:
        graph, config = graph_of(asked, compaction), {**thread(), "recursion_limit": 400}
        task = {"messages": [("user", SAID)]}
        streamed = [one async for one, _ in graph.astream(task, config, stream_mode="messages")]
        assert HANDOVER not in [one.text for one in streamed]
        assert not compaction.failures


async def run_langgraph_blocking(home: Path, asked: Asked) -> None:
    """An agent of LangGraph in a thread."""

    def run() -> None:
        with CompactionMiddleware(home=home, summarizer="session", **CHOSEN) as compaction:
            graph, config = graph_of(asked, compaction), {**thread(), "recursion_limit": 400}
            task = {"messages": [("user", SAID)]}
            streamed = [one for one, _ in graph.stream(task, config, stream_mode="messages")]
            assert HANDOVER not in [one.text for one in streamed]
            assert not compaction.failures

    await asyncio.to_thread(run)


RUNS = [run_pydantic_ai, run_openai_agents, run_langgraph, run_langgraph_blocking]


@pytest.mark.parametrize("run", RUNS)
async def test_an_agents_own_model_is_asked_behind_the_request_as_it_stands(
    tmp_path: Path, run: Any
) -> None:
    asked = Asked()
    await run(tmp_path, asked)
    asked.check()


@pytest.mark.parametrize("run", RUNS)
async def test_an_agent_goes_on_without_a_handover_that_says_nothing(
    tmp_path: Path, run: Any
) -> None:
    asked = Asked("All is well.")
    await run(tmp_path, asked)
    assert asked.questions
    assert "model says" not in "\n".join(asked.turns[-1])
    sizes = [len("".join(one)) for one in asked.turns]
    assert min(after - before for before, after in pairwise(sizes)) < 0  # it was compacted


async def test_another_summarizer_than_the_sessions_own_is_refused(tmp_path: Path) -> None:
    async with open_small(tmp_path) as store:
        session = await store.session("migrations")
        wrong: Any = "anthropic"
        with pytest.raises(InputError, match='use "session", or leave it out'):
            CompactionCapability(session, summarizer=wrong)
