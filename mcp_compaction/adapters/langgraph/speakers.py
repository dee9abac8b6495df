"""Whose the messages of a supervisor's history are: its own, or those of a sub-agent.

An agent signs its answers with its name. A result belongs to whoever made the call. Of what a
sub-agent said, the answer that it handed back is the supervisor's to read; the work before it is
not.
"""

# LangGraph's own types are partly unknown.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import groupby
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langgraph.constants import START
from langgraph.graph.state import CompiledStateGraph

AnyGraph = CompiledStateGraph[Any, Any, Any, Any]


def names_of_supervisor(graph: AnyGraph) -> frozenset[str]:
    """The names that a graph's own answers bear: its own, and those of the nodes it begins with."""
    first = {edge.target for edge in graph.get_graph().edges if edge.source == START}
    return frozenset({graph.name, *first})


def find_sub_agents(
    messages: Sequence[AnyMessage], own_names: Collection[str]
) -> Mapping[int, str]:
    """The sub-agents whose work stands in a history, by the places of their messages."""
    speakers = _speakers_of(messages, own_names)
    found: dict[int, str] = {}
    for speaker, run in groupby(range(len(messages)), key=speakers.__getitem__):
        if speaker is None:
            continue
        places = list(run)
        reports = [place for place in places if _is_report(messages[place])]
        found |= {place: speaker for place in places if place not in reports[-1:]}
    return found


def _speakers_of(messages: Sequence[AnyMessage], own_names: Collection[str]) -> list[str | None]:
    callers: dict[str, str | None] = {}
    speakers: list[str | None] = []
    for message in messages:
        speaker = None
        if isinstance(message, ToolMessage):
            speaker = callers.get(message.tool_call_id)
        elif isinstance(message, AIMessage):
            speaker = message.name if message.name and message.name not in own_names else None
            callers |= {call["id"]: speaker for call in message.tool_calls if call["id"]}
        speakers.append(speaker)
    return speakers


def _is_report(message: AnyMessage) -> bool:
    return isinstance(message, AIMessage) and not message.tool_calls and bool(message.text)
