"""A supervisor's digest holds what it was told, and nothing of its sub-agents' own work."""

# LangGraph's own types are partly unknown.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph_supervisor import create_supervisor  # pyright: ignore[reportMissingTypeStubs]

from mcp_compaction.adapters.langgraph import CompactedGraph
from tests.adapters.langgraph.graphs import Graph, ScriptedModel, texts, thread

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@tool
def look_up(employee: str) -> str:
    """Look an employee up."""
    return f"PRIVATE FILE of {employee}: diagnosis, debts, the code is 7741. " * 4


def call(name: str, id: str, **args: Any) -> Any:
    return {"name": name, "args": args, "id": id, "type": "tool_call"}


def researcher(messages: list[AnyMessage]) -> AIMessage:
    if isinstance(messages[-1], ToolMessage) and messages[-1].name == "look_up":
        return AIMessage("Report: employee 37 has 12 days left.")
    thought = "PRIVATE THOUGHT: the file may be wrong."
    return AIMessage(thought, tool_calls=[call("look_up", f"l{len(messages)}", employee="37")])


def supervisor(messages: list[AnyMessage]) -> AIMessage:
    asked = max(n for n, m in enumerate(messages) if isinstance(m, HumanMessage))
    if len(messages) > asked + 1:
        return AIMessage("You have 12 days left. " + "The file says so. " * 6)
    handed = call("transfer_to_researcher", f"h{len(messages)}-{messages[-1].id}")
    return AIMessage("", tool_calls=[handed])


def team(name: str, mode: Any) -> Graph:
    agent = create_agent(ScriptedModel(answer=researcher), [look_up], name="researcher")
    made: Any = create_supervisor(
        [agent], model=ScriptedModel(answer=supervisor), output_mode=mode, supervisor_name=name
    )
    return made.compile(checkpointer=InMemorySaver(), name=name)


@pytest.mark.parametrize("mode", ["last_message", "full_history"])
def test_a_sub_agents_work_never_leaks_into_the_digest(tmp_path: Path, mode: str) -> None:
    graph = team("supervisor", mode)
    with CompactedGraph(graph, token_limit=250, home=tmp_path, project="/hr") as agent:
        for number in range(4):
            asked = {"messages": [("user", f"Question {number}: how many days has employee 37?")]}
            agent.invoke(asked, thread())
        assert agent.failures == 0
        shown = texts(graph, thread())
        records = [text for text in shown if text.startswith("[")]
        assert any(text.startswith("[digest d") for text in records)
        assert not any("PRIVATE" in text or "7741" in text for text in records)
        own = agent.session("t1")
        found = own.recall("Report: employee 37")
        refs = (*(hit.ref for hit in found.hits), *found.in_window)
        assert any(own.quote(ref)[0].text.startswith("Report:") for ref in refs)
        assert not own.recall("PRIVATE diagnosis").hits
        if mode == "full_history":
            assert own.recall("PRIVATE diagnosis", scope="project").hits


def test_two_supervisors_on_one_store_never_see_each_others_messages(tmp_path: Path) -> None:
    graphs = [team(name, "full_history") for name in ("hr", "travel")]
    for graph in graphs:
        with CompactedGraph(graph, token_limit=250, home=tmp_path, project="/p") as agent:
            for number in range(3):
                word = f"{agent.name}-only-{number}"
                agent.invoke({"messages": [("user", f"{word}: days of employee 37?")]}, thread())
            other = "travel" if agent.name == "hr" else "hr"
            assert not any(f"{other}-only" in text for text in texts(graph, thread()))
            hits = agent.session("t1").recall(f"{other}-only-1").hits
            assert not any(f"{other}-only" in hit.text for hit in hits)
            assert agent.session("t1").recall(f"{agent.name}-only-1").hits
