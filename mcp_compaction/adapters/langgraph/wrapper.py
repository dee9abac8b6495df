"""A compiled graph whose threads live long: after each run, what is too much is compacted."""

# LangGraph's own types are partly unknown.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any, cast

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.constants import END, START
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import StateSnapshot

from mcp_compaction import compactor
from mcp_compaction.adapters.langgraph.messages import (
    InStore,
    Sessions,
    is_same,
    leave_thinking,
    messages_of,
    plain_of,
)
from mcp_compaction.api.blocking import BlockingSession
from mcp_compaction.api.handles import OpenSession
from mcp_compaction.compactor.results import Pinned
from mcp_compaction.core.log.pinned import PINNED_LABEL, is_pinned_block, pinned_block
from mcp_compaction.core.window.fill import Fill
from mcp_compaction.errors import InputError
from mcp_compaction.model import Author, Failed, NothingToDo, Outcome, Refusal
from mcp_compaction.ports import Scope, SessionKey

logger = logging.getLogger(__name__)

_DOING = "compacting a thread"
_TOO_MUCH_WORK = "the thread is over its limit with the work of its sub-agents"


class CompactedGraph(InStore):
    """A compiled graph that works as before, and whose history never grows without end.

        with CompactedGraph(graph, token_limit=500, compaction_ratio=0.5) as agent:
            agent.invoke({"messages": [("user", "Hello")]}, {"configurable": {"thread_id": "hr"}})

    When a run has ended and the thread's messages hold more than `token_limit` tokens, a digest
    takes the place of the oldest `compaction_ratio` of them, in the graph's own checkpointer. A
    thread that waits for a task or a person is left alone. What is no method here is the graph's.
    """

    def __init__(
        self,
        graph: AnyGraph,
        *,
        token_limit: int = 500,
        compaction_ratio: float = 0.5,
        name: str | None = None,
        own_names: Iterable[str] = (),
        messages_key: str = "messages",
        **settings: Any,
    ) -> None:
        """A graph to be used inside `with` or `async with`.

        `name`: of the agent, where several share a store; without one the graph's. `own_names`:
        names that its own answers bear beside that; answers of other names are sub-agents'.
        `messages_key`: where the state has its messages. `settings`: as for `open_store`.
        """
        self.graph = graph
        _check(graph, messages_key)
        self.name = name or graph.name
        self._key = messages_key
        self._own_names = names_of_supervisor(graph) | {self.name, *own_names}
        chosen = {"window_tokens": token_limit, "compaction_ratio": compaction_ratio}
        self._outcomes: dict[str, Outcome | None] = {}
        self._sessions = Sessions({"preset": "supervisor", **chosen, **settings})

    def __getattr__(self, name: str) -> Any:
        if name == "graph":  # not yet set: an unfinished copy
            raise AttributeError(name)
        return getattr(self.graph, name)

    def invoke(self, input: Any, config: RunnableConfig | None = None, **options: Any) -> Any:
        """Run the graph, then compact the thread where it holds too much."""
        answer = self.graph.invoke(input, config, **options)
        self._after_run(config)
        return answer

    def stream(
        self, input: Any, config: RunnableConfig | None = None, **options: Any
    ) -> Iterator[Any]:
        """The graph's own chunks; after the last one the thread is compacted."""
        yield from self.graph.stream(input, config, **options)
        self._after_run(config)

    async def ainvoke(
        self, input: Any, config: RunnableConfig | None = None, **options: Any
    ) -> Any:
        """Run the graph, then compact the thread where it holds too much."""
        answer = await self.graph.ainvoke(input, config, **options)
        await self._after_async_run(config)
        return answer

    async def astream(
        self, input: Any, config: RunnableConfig | None = None, **options: Any
    ) -> AsyncIterator[Any]:
        """The graph's own chunks; after the last one the thread is compacted."""
        async for chunk in self.graph.astream(input, config, **options):
            yield chunk
        await self._after_async_run(config)

    def pin(self, thread_id: str, text: str, *, by: Author = "user") -> Pinned:
        """Keep a text word for word in a thread's history, from its next run on."""
        pinned = self.session(thread_id).pin(text, by=by, scope="session")
        self._show(_config_of(thread_id), relieve=False)
        return pinned

    async def apin(self, thread_id: str, text: str, *, by: Author = "user") -> Pinned:
        """Keep a text word for word in a thread's history, from its next run on."""
        session = await asyncio.to_thread(self.session, thread_id)
        pinned = await asyncio.to_thread(partial(session.pin, text, by=by, scope="session"))
        await self._show_async(_config_of(thread_id), relieve=False)
        return pinned

    def session(self, thread_id: str) -> BlockingSession:
        """The session that keeps all that a thread's supervisor said."""
        return self._sessions.open(self._session_name(thread_id))

    def outcome(self, thread_id: str) -> Outcome | None:
        """What came of compacting a thread after its last run here: a compaction, or why there was
        none; None where it held no more than its limit."""
        return self._outcomes.get(self._session_name(thread_id))

    def forget(self, thread_id: str) -> str:
        """Remove all that the store keeps of a thread; says what the checkpointer still has.

        Older checkpoints hold the full text, and so does the newest one what it shows.
        """
        name = self._session_name(thread_id)
        gone = self._sessions.run(name, _forget)
        left = sum(1 for _ in self.graph.get_state_history(_config_of(thread_id)))
        return (
            f"forgotten: {gone} messages of {name}. The checkpointer still holds {left} "
            f"checkpoints of the thread, the older ones with the full text; they go with "
            f"graph.checkpointer.delete_thread({thread_id!r})."
        )

    def _session_name(self, thread_id: str) -> str:
        return f"{self.name} {thread_id}"

    def _after_run(self, config: RunnableConfig | None) -> None:
        thread = self._thread_of(config)
        if thread is not None:
            with self._sessions.failures.isolate(_DOING):
                self._show(thread)

    async def _after_async_run(self, config: RunnableConfig | None) -> None:
        thread = self._thread_of(config)
        if thread is not None:
            with self._sessions.failures.isolate(_DOING):
                await self._show_async(thread)

    def _thread_of(self, config: RunnableConfig | None) -> RunnableConfig | None:
        """The thread whose history is the supervisor's; None for a run within another graph."""
        known = {**(self.graph.config or {}).get("configurable", {})}
        known |= (config or {}).get("configurable", {})
        if known.get("thread_id") is None or known.get("checkpoint_ns"):
            return None
        return _config_of(str(known["thread_id"]))

    def _show(self, thread: RunnableConfig, *, relieve: bool = True) -> None:
        """Put what the model should see in the place of a thread's history."""
        graph, state = self.graph, self.graph.get_state(thread)
        if _is_waiting(state):
            return
        before = graph.get_state(state.parent_config) if state.parent_config else None
        update = self._update_for(thread, state, relieve)
        if update is None:
            return
        graph.update_state(thread, update, as_node=self._last_node(before))
        if graph.get_state(thread).next:
            graph.update_state(thread, None, as_node=END)

    async def _show_async(self, thread: RunnableConfig, *, relieve: bool = True) -> None:
        """Put what the model should see in the place of a thread's history."""
        graph, state = self.graph, await self.graph.aget_state(thread)
        if _is_waiting(state):
            return
        before = await graph.aget_state(state.parent_config) if state.parent_config else None
        update = await asyncio.to_thread(self._update_for, thread, state, relieve)
        if update is None:
            return
        await graph.aupdate_state(thread, update, as_node=self._last_node(before))
        if (await graph.aget_state(thread)).next:
            await graph.aupdate_state(thread, None, as_node=END)

    def _last_node(self, before: StateSnapshot | None) -> str:
        """The node as which a history is replaced: the last one that ran, or one that ends."""
        ran = before.next if before is not None else ()
        ends = (e.source for e in self.graph.get_graph().edges if e.target == END)
        nodes = [*ran, *ends, *self.graph.nodes]
        return next(node for node in nodes if node in self.graph.nodes and node != START)

    def _update_for(
        self, thread: RunnableConfig, state: StateSnapshot, relieve: bool
    ) -> dict[str, Any] | None:
        messages = cast("list[AnyMessage]", state.values.get(self._key) or [])
        name = self._session_name(thread["configurable"]["thread_id"])  # pyright: ignore[reportTypedDictNotRequiredAccess]
        work = partial(_replace, messages=messages, own_names=self._own_names, relieve=relieve)
        shown, self._outcomes[name] = self._sessions.run(name, work)
        if is_same(shown, messages):
            return None
        return {self._key: [RemoveMessage(id=REMOVE_ALL_MESSAGES), *shown]}


async def _replace(
    session: OpenSession,
    *,
    messages: Sequence[AnyMessage],
    own_names: frozenset[str],
    relieve: bool,
) -> tuple[list[AnyMessage], Outcome | None]:
    """The history that a thread should have, and what came of compacting it: what is compacted goes
    with the work it started."""
    others = find_sub_agents(messages, own_names)
    await _keep_work(session, messages, others)
    pins = [pin for pin in await session.pins() if pin.kind != "note"]
    # A block that came before the first message would be taken for one.
    own = [
        message
        for place, message in enumerate(messages)
        if place not in others and not (message.text and is_pinned_block(message.text, pins))
    ]
    shown: list[AnyMessage] = []
    outcome: Outcome | None = None
    if own:
        plain = [plain_of(message) for message in own]
        fitted = await session.fit(plain, relieve=relieve, is_sent=False)
        outcome = fitted.outcome
        if relieve and outcome is None and _is_too_large(session, fitted.fill, messages, others):
            outcome = await session.compress(_TOO_MUCH_WORK, force=True)
            fitted = await session.fit(plain, relieve=False, is_sent=False)
        if isinstance(outcome, Refusal | NothingToDo | Failed):
            logger.info("%s was not compacted: %s", session.name, outcome.text)
        shown = messages_of(fitted.layout, own)
    shown = _with_others(_with_pins(shown, pinned_block(pins)), messages, others)
    return await leave_thinking(session, messages, shown), outcome


def _is_too_large(
    session: OpenSession, own: Fill, messages: Sequence[AnyMessage], others: Mapping[int, str]
) -> bool:
    """Whether a thread is over its limit with the work of sub-agents, and some of that work would
    leave with the oldest share of the supervisor's messages."""
    work = own.scaled(sum(_count(session, messages[place]) for place in others))
    oldest = (len(messages) - len(others)) * (session.store.settings.policy.compaction_ratio or 0)
    is_leaving = any(0 < place - rank <= oldest for rank, place in enumerate(sorted(others)))
    return own.tokens + work > own.window and is_leaving


def _count(session: OpenSession, message: AnyMessage) -> int:
    """The tokens of a message: its text, and what it calls."""
    calls = message.tool_calls if isinstance(message, AIMessage) else ()
    called = "".join(f"{call['name']} {json.dumps(call['args'])}" for call in calls)
    overhead = session.store.settings.policy.overhead_per_message
    return session.store.workspace.counter.count(message.text + called) + overhead


async def _keep_work(
    session: OpenSession, messages: Sequence[AnyMessage], others: Mapping[int, str]
) -> None:
    """Keep what sub-agents said, each in a session of its own."""
    for agent in sorted(set(others.values())):
        said = [plain_of(messages[place]) for place, name in others.items() if name == agent]
        name = f"{session.name} / {agent}"
        key = SessionKey(
            project=session.info.project, name=name, agent=agent, parent=session.info.id
        )
        info, _ = await compactor.open_session(session.store.workspace, key)
        await OpenSession(session.store, info).fit(said, relieve=False, is_sent=False)


def _with_pins(shown: list[AnyMessage], block: str) -> list[AnyMessage]:
    """What is shown, with all pins in force: a new one else waits for the next compaction."""
    if not block or any(message.text == block for message in shown):
        return shown
    place = next((n for n, m in enumerate(shown) if m.text.startswith(PINNED_LABEL)), None)
    if place is not None:
        return [*shown[:place], HumanMessage(block), *shown[place + 1 :]]
    first = next((n for n, m in enumerate(shown, 1) if m.type == "human"), 0)
    return [*shown[:first], HumanMessage(block), *shown[first:]]


def _with_others(
    shown: Sequence[AnyMessage], messages: Sequence[AnyMessage], others: Mapping[int, str]
) -> list[AnyMessage]:
    """What is shown, with a sub-agent's work behind the message that it followed."""
    if not others:
        return list(shown)
    behind: dict[str | None, list[AnyMessage]] = {}
    last: str | None = None
    for place, message in enumerate(messages):
        if place in others:
            behind.setdefault(last, []).append(message)
        else:
            last = message.id
    laid = list(behind.get(None, ()))
    for message in shown:
        laid += (message, *(behind.get(message.id, ()) if message.id is not None else ()))
    return laid


async def _forget(session: OpenSession) -> int:
    work, info = session.store.workspace, session.info
    known = await compactor.list_sessions(work, info.project, limit=10_000)
    mine = [one for one in known if one.id == info.id or one.name.startswith(f"{info.name} / ")]
    gone = [
        await compactor.forget(work, Scope(project=info.project, session=one.id)) for one in mine
    ]
    return sum(one.messages for one in gone)


def _config_of(thread_id: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread_id}}


def _is_waiting(state: StateSnapshot) -> bool:
    """Whether a thread has a task to do, or waits for somebody."""
    return bool(state.next or state.tasks or state.interrupts)


def _check(graph: AnyGraph, key: str) -> None:
    """Refuse a graph whose history cannot be replaced, and say why."""
    if not graph.checkpointer:
        raise InputError(
            "the graph has no checkpointer, so there is no history to compact; compile it with "
            "one, as graph.compile(checkpointer=InMemorySaver())."
        )
    replace = getattr(graph.channels.get(key), "operator", None)
    old, new = AIMessage("old", id="old"), HumanMessage("new", id="new")
    is_replaced = callable(replace) and _reduces(replace, old, new)
    if not is_replaced:
        raise InputError(
            f"the state's {key!r} has no add_messages reducer, so messages cannot be removed from "
            f"it; declare it as {key}: Annotated[list[AnyMessage], add_messages]."
        )


def _reduces(reducer: Any, old: AnyMessage, new: AnyMessage) -> bool:
    try:
        return reducer([old], [RemoveMessage(id=REMOVE_ALL_MESSAGES), new]) == [new]
    except (TypeError, ValueError, AttributeError):
        return False


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
