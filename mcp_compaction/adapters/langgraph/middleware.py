"""A middleware for `create_agent`: the agent looks after its own window."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import Context
from functools import partial
from typing import Any, NamedTuple, cast

from langchain.agents.middleware import AgentMiddleware, AgentState, ModelRequest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage
from langchain_core.tools import BaseTool, StructuredTool, ToolException
from langgraph.config import get_config
from langgraph.graph.message import REMOVE_ALL_MESSAGES

from mcp_compaction.adapters.guard import text_of_error
from mcp_compaction.adapters.in_process import InProcess
from mcp_compaction.adapters.langgraph.messages import (
    InStore,
    Sessions,
    is_same,
    leave_refused,
    leave_thinking,
    messages_of,
    plain_of,
)
from mcp_compaction.adapters.session_model import SummarizerName, find_own_model
from mcp_compaction.api.handles import OpenSession
from mcp_compaction.compactor.workspace import Newest
from mcp_compaction.errors import InputError
from mcp_compaction.formats.usage import Usage
from mcp_compaction.lexicon.host_texts import own_tools
from mcp_compaction.lexicon.models import find_refused_block, is_overflow, limit_in
from mcp_compaction.model import JsonObject
from mcp_compaction.summarizers.session_model import QUESTION, Answered, SessionModel
from mcp_compaction.tools.arguments import Definition, definition_of
from mcp_compaction.tools.running import list_tools, run_tool

# LangGraph's own types are partly unknown.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false


class CompactionMiddleware(InStore, AgentMiddleware[AgentState[Any], Any, Any]):
    """The context tools for an agent, and the window that they ask for before each model call.

        with CompactionMiddleware(window_tokens=200_000) as compaction:
            agent = create_agent(model, tools, middleware=[compaction], checkpointer=saver)

    The history in the agent's state is replaced, so that a checkpointer keeps what the model saw.
    """

    def __init__(
        self,
        *,
        session: str | None = None,
        agent_controlled: bool = True,
        offload_over_tokens: int | None = 20_000,
        summarizer: SummarizerName = None,
        **settings: Any,
    ) -> None:
        """A middleware to be used inside `with` or `async with`.

        `session`: the name of the session; without one it is the thread's id.
        `agent_controlled`: whether compress_context is offered. A tool result of more tokens than
        `offload_over_tokens` becomes a preview with its ref; None: never. `summarizer`: "session"
        has the agent's own model write the handover of a compaction, over the request as it
        stands. `settings`: as for `open_store`.
        """
        super().__init__()
        self._summarizer: SummarizerName = summarizer
        self._called = Newest[str, tuple[SessionModel, _Called]]()  # by the names of sessions
        self._session = session
        self._offload_over = offload_over_tokens
        self._sessions = Sessions({"agent_controlled": agent_controlled, **settings})
        self.tools = [
            self._make_tool(definition_of(tool)) for tool in list_tools(by_agent=agent_controlled)
        ]

    def before_model(self, state: AgentState[Any], runtime: Any) -> dict[str, Any] | None:
        """Record what is new, and replace the history where the view asks for it."""
        return self._fit(state["messages"])

    async def abefore_model(self, state: AgentState[Any], runtime: Any) -> dict[str, Any] | None:
        """Record what is new, and replace the history where the view asks for it."""
        return await asyncio.to_thread(self._fit, state["messages"])

    def wrap_model_call(self, request: ModelRequest[Any], handler: Callable[[Any], Any]) -> Any:
        """Call the model; where it says that the request is too large, compress and call again."""
        self._know(request, handler, None)
        try:
            return handler(request)
        except Exception as error:
            smaller = self._mend(request, text_of_error(error))
            if smaller is None:
                raise
        return handler(smaller)

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[Any], Awaitable[Any]]
    ) -> Any:
        """Call the model; where it says that the request is too large, compress and call again."""
        await asyncio.to_thread(self._know, request, handler, asyncio.get_running_loop())
        try:
            return await handler(request)
        except Exception as error:
            smaller = await asyncio.to_thread(self._mend, request, text_of_error(error))
            if smaller is None:
                raise
        return await handler(smaller)

    def after_model(self, state: AgentState[Any], runtime: Any) -> None:
        """Record an answer that calls one of the context tools, so that they know of it."""
        self._record_call(state["messages"])

    async def aafter_model(self, state: AgentState[Any], runtime: Any) -> None:
        """Record an answer that calls one of the context tools, so that they know of it."""
        await asyncio.to_thread(self._record_call, state["messages"])

    def _know(
        self,
        request: ModelRequest[Any],
        handler: Callable[[Any], Any],
        loop: asyncio.AbstractEventLoop | None,
    ) -> None:
        """Note how the agent's model is called, where it is to write handovers."""
        if self._summarizer is None:
            return
        with self._sessions.failures.isolate("knowing the agent's model"):
            name = self._session_name()
            known = self._called.get(name)
            session = self._sessions.open(name).handle
            model = known[0] if known else find_own_model(session, self._summarizer)
            if model is not None:
                called = _Called(request, handler, loop)
                model.ask = partial(called.ask, request.messages)
                self._called.keep(name, (model, called))

    def _fit(self, messages: list[AnyMessage]) -> dict[str, Any] | None:
        with self._sessions.failures.isolate("fitting the window"):
            known = self._called.get(self._session_name())
            if known is not None:
                known[0].ask = partial(known[1].ask, messages)
            work = partial(_fit, messages=messages, offload_over=self._offload_over)
            shown = self._sessions.run(self._session_name(), work)
            if not is_same(shown, messages):
                return {"messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES), *shown]}
        return None

    def _mend(self, request: ModelRequest[Any], refusal: str) -> ModelRequest[Any] | None:
        """What to send after an overflow or a refusal of thinking; None after another error, or
        where nothing is smaller."""
        place = find_refused_block(refusal)
        if place is not None:
            with self._sessions.failures.isolate("leaving thinking out"):
                left = partial(leave_refused, sent=list(request.messages), place=place)
                shown = self._sessions.run(self._session_name(), left)
                return request.override(messages=shown)
        if not is_overflow(refusal):
            return None
        with self._sessions.failures.isolate("compressing after an overflow"):
            messages = request.state["messages"]  # as they were recorded, whatever others added
            work = partial(_fit_smaller, messages=messages, limit=limit_in(refusal))
            shown = self._sessions.run(self._session_name(), work)
            if len(str(shown)) < len(str(request.messages)):
                return request.override(messages=shown)
        return None

    def _record_call(self, messages: list[AnyMessage]) -> None:
        newest = messages[-1]
        if isinstance(newest, AIMessage) and any(
            call["name"] in own_tools() for call in newest.tool_calls
        ):
            with self._sessions.failures.isolate("recording a call"):
                self._sessions.run(self._session_name(), partial(_record, messages=messages))

    def _session_name(self) -> str:
        configurable = cast("Mapping[str, Any]", get_config().get("configurable") or {})
        name = self._session or configurable.get("thread_id")
        if name is None:
            raise InputError(
                "the agent has no thread; pass a thread_id in its config, or "
                'CompactionMiddleware(session="tax-2026").'
            )
        return str(name)

    def _make_tool(self, tool: Definition) -> BaseTool:
        def run(**arguments: Any) -> str:
            work = partial(_run_tool, tool=tool.name, arguments=arguments)
            return self._sessions.run(self._session_name(), work)

        async def run_async(**arguments: Any) -> str:
            return await asyncio.to_thread(partial(run, **arguments))

        return StructuredTool(
            name=tool.name,
            description=tool.description,
            args_schema=cast("dict[str, Any]", tool.schema),
            func=run,
            coroutine=run_async,
            handle_tool_error=True,
        )


class _Called(NamedTuple):
    """How an agent's model was called last."""

    request: ModelRequest[Any]
    handler: Callable[[Any], Any]
    loop: asyncio.AbstractEventLoop | None  # that the handler runs in; None: it blocks

    async def ask(self, messages: Sequence[AnyMessage]) -> Answered:
        """What the model answers to our question behind messages; the graph's callbacks, which
        may show each token to a user, hear nothing of it."""
        asked = self.request.override(messages=[*messages, HumanMessage(QUESTION)])
        if self.loop is None:
            response = await asyncio.get_running_loop().run_in_executor(None, self.handler, asked)
        else:
            started = Context().run(
                asyncio.run_coroutine_threadsafe, self.handler(asked), self.loop
            )
            response = await asyncio.wrap_future(started)
        said = getattr(response, "result", [response])[-1]
        used = cast("Mapping[str, Any]", said.usage_metadata or {})
        cached = used.get("input_token_details", {}).get("cache_read", 0)
        counted = (
            Usage(used["input_tokens"] - cached, cached, output=used["output_tokens"])
            if used
            else None
        )
        name = said.response_metadata.get("model_name") or getattr(asked.model, "model_name", "")
        return Answered(str(said.text), str(name or "a model"), counted)


async def _fit(
    session: OpenSession, *, messages: list[AnyMessage], offload_over: int | None
) -> list[AnyMessage]:
    plain = _plain(messages)
    fitted = await session.fit(plain, offload_over_tokens=offload_over, is_sent=False)
    shown = messages_of(fitted.layout, messages)
    return await leave_thinking(session, messages, shown)


async def _fit_smaller(
    session: OpenSession, *, messages: list[AnyMessage], limit: int | None
) -> list[AnyMessage]:
    await InProcess(session, "openai").make_room(limit)
    return await _fit(session, messages=messages, offload_over=None)


async def _record(session: OpenSession, *, messages: list[AnyMessage]) -> None:
    await session.fit(_plain(messages), relieve=False, is_sent=False)


async def _run_tool(session: OpenSession, *, tool: str, arguments: Mapping[str, Any]) -> str:
    answer = await run_tool(session, tool, arguments)
    if answer.is_error:
        raise ToolException(answer.text)
    return answer.text


def _plain(messages: list[AnyMessage]) -> list[JsonObject]:
    return [plain_of(message, with_usage=True) for message in messages]
