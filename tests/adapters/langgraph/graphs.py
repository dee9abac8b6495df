"""Real graphs with scripted models: a clerk that answers, and a supervisor with sub-agents."""

# LangGraph's own types are partly unknown.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.state import CompiledStateGraph
from pydantic import Field

Graph = CompiledStateGraph[Any, Any, Any, Any]
Answer = Callable[[list[AnyMessage]], AIMessage]


class ScriptedModel(BaseChatModel):
    """A chat model that answers by a function, and refuses what a provider would refuse."""

    answer: Any
    seen: list[list[Any]] = Field(default_factory=list[list[Any]])

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **_: Any) -> Any:
        """The same model: its script knows the tools."""
        return self

    def _generate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **_: Any
    ) -> ChatResult:
        check_pairs(messages)
        self.seen.append(list(messages))
        return ChatResult(generations=[ChatGeneration(message=self.answer(messages))])


def check_pairs(messages: Sequence[BaseMessage]) -> None:
    """Refuse a request in which a call and its results do not stand together."""
    waiting: set[str] = set()
    for message in messages:
        if message.type == "tool":
            call = str(getattr(message, "tool_call_id", None))
            assert call in waiting, f"no call for {message.content}"
            waiting.discard(call)
            continue
        assert not waiting, f"{waiting} not answered before {message.content}"
        waiting = {str(call["id"]) for call in getattr(message, "tool_calls", ())}
    assert not waiting


def clerk(state: MessagesState) -> dict[str, Any]:
    """An answer of some forty tokens."""
    number = len(state["messages"])
    text = (
        f"Answer {number}: the balance of employee {number * 37} is {number} days; it was approved "
        f"by the office in room {number}, and the calendar shows it from Monday on."
    )
    return {"messages": [AIMessage(text)]}


def clerk_graph(checkpointer: Any, node: Any = clerk, name: str | None = None) -> Graph:
    """A graph of one node that answers."""
    builder: Any = StateGraph(MessagesState)
    builder.add_node("clerk", node)
    builder.add_edge(START, "clerk")
    builder.add_edge("clerk", END)
    return builder.compile(checkpointer=checkpointer, name=name)


def ask(number: int) -> dict[str, Any]:
    """The input of one turn."""
    return {"messages": [("user", f"Request {number}: how many days has employee {number * 37}?")]}


def thread(name: str = "t1") -> Any:
    """The config of a thread."""
    return {"configurable": {"thread_id": name}}


def texts(graph: Graph, config: Any) -> list[str]:
    """The texts of a thread's history."""
    return [message.text for message in graph.get_state(config).values["messages"]]
