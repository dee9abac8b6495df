"""A wrapped graph works as before, and its threads live long."""

# LangGraph's own types are partly unknown.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command, interrupt
from typing_extensions import TypedDict

from mcp_compaction import errors
from mcp_compaction.adapters.langgraph import CompactedGraph
from tests.adapters.langgraph.graphs import ask, check_pairs, clerk_graph, texts, thread

RULE = "Never tell a salary to a colleague."
LATER = "Only the office in room 4 approves leave."


def wrapped(graph: Any, home: Path, **options: Any) -> CompactedGraph:
    return CompactedGraph(graph, home=home, project="/hr", **options)


def test_a_thread_is_compacted_in_its_own_checkpointer_and_goes_on(tmp_path: Path) -> None:
    graph = clerk_graph(InMemorySaver())
    with wrapped(graph, tmp_path) as agent:
        agent.pin("t1", RULE)
        sizes = []
        for number in range(24):
            answer = agent.invoke(ask(number), thread())
            assert answer["messages"][-1].text.startswith("Answer ")
            state = graph.get_state(thread())
            assert state.next == ()
            sizes.append(len(state.values["messages"]))
            assert any(RULE in text for text in texts(graph, thread()))
        assert max(sizes) < 20
        assert any("[kept word for word" in text for text in texts(graph, thread()))
        assert agent.session("t1").recall("Request 3").hits
        assert agent.failures == 0


def test_compaction_comes_after_the_last_chunk(tmp_path: Path) -> None:
    graph = clerk_graph(InMemorySaver())
    with wrapped(graph, tmp_path, token_limit=100) as agent:
        for number in range(3):
            agent.invoke(ask(number), thread())
        before = 0
        chunks = agent.stream(ask(9), thread(), stream_mode="values")
        for chunk in chunks:
            assert texts(graph, thread())[-1] == chunk["messages"][-1].text
            before = len(chunk["messages"])
        assert len(texts(graph, thread())) < before


@pytest.mark.anyio
async def test_the_asynchronous_pair_does_the_same(tmp_path: Path) -> None:
    async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "a.sqlite")) as saver:
        graph = clerk_graph(saver)
        async with wrapped(graph, tmp_path, token_limit=300) as agent:
            await agent.apin("t1", RULE)
            for number in range(6):
                await agent.ainvoke(ask(number), thread())
            async for _ in agent.astream(ask(6), thread()):
                pass
            state = await graph.aget_state(thread())
            shown = [message.text for message in state.values["messages"]]
            assert len(shown) < 12
            assert any("[digest d" in text for text in shown)
            assert any(RULE in text for text in shown)
            assert agent.failures == 0


def test_the_compacted_history_is_what_another_process_finds(tmp_path: Path) -> None:
    path = tmp_path / "threads.sqlite"
    with SqliteSaver.from_conn_string(str(path)) as saver:
        graph = clerk_graph(saver)
        with wrapped(graph, tmp_path, token_limit=300) as agent:
            agent.pin("t1", RULE)
            for number in range(8):
                agent.invoke(ask(number), thread())
        shown = texts(graph, thread())
    script = (
        "import sys, json\n"
        "from langgraph.checkpoint.sqlite import SqliteSaver\n"
        "from tests.adapters.langgraph.graphs import clerk_graph, texts, thread\n"
        "with SqliteSaver.from_conn_string(sys.argv[1]) as saver:\n"
        "    print(json.dumps(texts(clerk_graph(saver), thread())))\n"
    )
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)],
        capture_output=True,
        text=True,
        check=True,
        cwd=root,
    )
    assert json.loads(done.stdout) == shown
    assert any("[digest d" in text for text in shown)


def test_a_graph_that_waits_for_a_person_is_left_alone_and_resumes(tmp_path: Path) -> None:
    def clerk(state: MessagesState) -> dict[str, Any]:
        said = interrupt("approve?") if "approve" in state["messages"][-1].text else "noted"
        return {"messages": [AIMessage(f"It is {said}. " + "And it was filed. " * 8)]}

    graph = clerk_graph(InMemorySaver(), clerk)
    with wrapped(graph, tmp_path, token_limit=200) as agent:
        for number in range(4):
            agent.invoke(ask(number), thread())
        agent.invoke({"messages": [("user", "Please approve. " + "Urgent. " * 99)]}, thread())
        waiting = graph.get_state(thread())
        assert waiting.next == ("clerk",)
        assert waiting.values["messages"][-1].text.startswith("Please approve.")
        agent.pin("t1", RULE)
        assert graph.get_state(thread()) == waiting
        agent.invoke(Command(resume="granted"), thread())
        assert graph.get_state(thread()).next == ()
        assert texts(graph, thread())[-1].startswith("It is granted.")
        assert any(RULE in text for text in texts(graph, thread()))
        assert any(text.startswith("[digest d") for text in texts(graph, thread()))


def test_the_next_node_stays_the_same_where_an_edge_would_go_on(tmp_path: Path) -> None:
    runs: list[str] = []

    def work(name: str) -> Any:
        def node(state: MessagesState) -> dict[str, Any]:
            runs.append(name)
            return {"messages": [AIMessage(f"{name}: " + "done and filed. " * 9)]}

        return node

    builder: Any = StateGraph(MessagesState)
    for name in ("first", "second"):
        builder.add_node(name, work(name))
    builder.add_edge(START, "first")
    builder.add_conditional_edges("first", lambda state: "second", {"second": "second"})
    builder.add_conditional_edges(
        "second", lambda s: END if "done" in s["messages"][-1].text else "first", ["first", END]
    )
    graph = builder.compile(checkpointer=InMemorySaver())
    with wrapped(graph, tmp_path, token_limit=150, compaction_ratio=0.8) as agent:
        for number in range(4):
            agent.invoke(ask(number), thread())
            assert graph.get_state(thread()).next == ()
    assert runs == ["first", "second"] * 4
    assert any(text.startswith("[digest d") for text in texts(graph, thread()))


def test_a_state_without_the_reducer_is_refused_with_the_reason(tmp_path: Path) -> None:
    class State(TypedDict):
        messages: Annotated[list[Any], lambda old, new: old + new]

    builder: Any = StateGraph(State)
    builder.add_node("clerk", lambda state: {"messages": [AIMessage("yes")]})
    builder.add_edge(START, "clerk")
    with pytest.raises(errors.InputError, match="no add_messages reducer"):
        CompactedGraph(builder.compile(checkpointer=InMemorySaver()))
    with pytest.raises(errors.InputError, match="no checkpointer"):
        CompactedGraph(clerk_graph(None))


def test_what_is_forgotten_is_named_with_what_the_checkpointer_keeps(tmp_path: Path) -> None:
    graph = clerk_graph(InMemorySaver())
    with wrapped(graph, tmp_path, token_limit=200) as agent:
        for number in range(5):
            agent.invoke(ask(number), thread())
        oldest = [
            text
            for state in graph.get_state_history(thread())
            for text in [m.text for m in state.values.get("messages", [])]
        ]
        assert any(text.startswith("Request 0") for text in oldest)
        told = agent.forget("t1")
        assert told.startswith("forgotten: 10 messages of LangGraph t1.")
        assert "graph.checkpointer.delete_thread('t1')" in told
        assert not agent.session("t1").recall("Request 0").hits


def test_a_failure_inside_leaves_the_thread_as_it_was(tmp_path: Path) -> None:
    graph = clerk_graph(InMemorySaver())
    agent = wrapped(graph, tmp_path)
    assert agent.invoke(ask(1), thread())["messages"][-1].text  # outside `with`: nothing is open
    assert agent.failures == 1
    assert len(texts(graph, thread())) == 2


def test_a_run_without_a_thread_or_inside_another_graph_is_only_passed_on(tmp_path: Path) -> None:
    inner = clerk_graph(True, name="inner")
    with wrapped(inner, tmp_path, token_limit=50) as agent:
        outer = clerk_graph(
            InMemorySaver(), lambda state: agent.invoke({"messages": state["messages"]})
        )
        for number in range(3):
            outer.invoke(ask(number), thread())
        assert not any("[digest" in text for text in texts(outer, thread()))
        assert agent.failures == 0


@pytest.mark.slow
def test_100_turns_with_tools_stay_near_the_limit_and_keep_every_pin(tmp_path: Path) -> None:
    def clerk(state: MessagesState) -> dict[str, Any]:
        check_pairs(state["messages"])
        assert all(any(rule in m.text for m in state["messages"]) for rule in (RULE, LATER))
        call = f"c{state['messages'][-1].id}"
        calls = [{"name": "days", "args": {"of": "37"}, "id": call, "type": "tool_call"}]
        found = ToolMessage("37 has 12 days. " * 9, tool_call_id=call)
        return {"messages": [AIMessage("", tool_calls=calls), found, AIMessage("It has 12 days.")]}

    graph = clerk_graph(InMemorySaver(), clerk)
    with wrapped(graph, tmp_path, token_limit=1_000) as agent:
        agent.pin("t1", RULE)
        agent.pin("t1", LATER)
        for number in range(100):
            agent.invoke(ask(number), thread())
            assert agent.session("t1").stats().fill.tokens < 1_200
        assert agent.failures == 0
