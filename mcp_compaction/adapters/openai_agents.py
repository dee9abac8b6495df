"""The OpenAI Agents SDK: a session that is kept here, and the input filter that fits the window.

async with open_store(window_tokens=200_000) as store:
    memory = CompactionSession(await store.session("tax-2026"))
    agent = Agent(name="clerk", tools=[*mine, *memory.tools])
    config = RunConfig(call_model_input_filter=memory.fit_input)
    await Runner.run(agent, "Sort the receipts.", session=memory, run_config=config)
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from typing import Any, cast

if not find_spec("agents"):
    raise ImportError(
        "The OpenAI Agents SDK is not installed; install it with: "
        "pip install 'mcp-compaction[openai-agents]'"
    )

from agents import (
    FunctionTool,
    Handoff,
    Model,
    ModelTracing,
    MultiProvider,
    RunContextWrapper,
    Tool,
    ToolGuardrailFunctionOutput,
    ToolInputGuardrail,
    ToolInputGuardrailData,
    handoff,
)
from agents.items import TResponseInputItem
from agents.memory import SessionSettings
from agents.run_config import CallModelData, ModelInputData
from agents.tool_context import ToolContext

from mcp_compaction.adapters.guard import CallGuard, Failures
from mcp_compaction.adapters.loop import LoopKit
from mcp_compaction.adapters.session_model import SummarizerName, as_it_stands, find_own_model
from mcp_compaction.api.handles import OpenSession
from mcp_compaction.core.window.history import is_record
from mcp_compaction.formats.turns import plain_of
from mcp_compaction.formats.usage import Usage
from mcp_compaction.model import JsonObject
from mcp_compaction.summarizers.session_model import Answered, read_answered, with_question

__all__ = ["CompactionSession", "guardrail_of"]

_EMPTIED: JsonObject = {"role": "user", "content": "[the session was emptied here]"}


class CompactionSession:
    """A session of the SDK whose items are kept in a store, and compacted where they are too many.

    Its history is what the model should see: digests stand for old items. What `pop_item` and
    `clear_session` take away is no longer shown, and stays in the log.
    """

    def __init__(
        self,
        session: OpenSession,
        *,
        offload_over_tokens: int | None = 20_000,
        summarizer: SummarizerName = None,
    ) -> None:
        """A session of the SDK on an open one of a store.

        A tool result of more tokens than `offload_over_tokens` becomes a preview with its ref
        when it comes; None: never. `summarizer`: "session" has the agent's own model write the
        handover of a compaction, over the request as it stands.
        """
        self.session_id = session.name
        self.session_settings: SessionSettings | None = None
        self._failures = Failures("run")
        self._session = session
        self._offload_over = offload_over_tokens
        self._kit = LoopKit(session, shape="responses")
        self._own_model = find_own_model(session, summarizer)
        self._last: tuple[Sequence[Any], Sequence[Any]] = ([], [])  # what came, and what was sent
        self._items: list[JsonObject] | None = None  # None: not read from the store yet
        self.tools: list[Tool] = [self._make_tool(one) for one in self._kit.tools]

    @property
    def failures(self) -> int:
        """How often fitting the window failed; each is logged, and the run went on."""
        return self._failures.count

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """The history, oldest first; with a limit its newest items."""
        items = [one for one in await self._read() if one != _EMPTIED]
        if limit is None and self.session_settings is not None:
            limit = self.session_settings.limit
        shown = items if limit is None else items[max(0, len(items) - limit) :]
        return cast("list[TResponseInputItem]", list(shown))

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Keep new items."""
        if items:
            await self._follow([*await self._read(), *cast("list[JsonObject]", items)])

    async def pop_item(self) -> TResponseInputItem | None:
        """Take the newest item out of the history; the log keeps it."""
        items = await self._read()
        if not items or items[-1] == _EMPTIED or _is_ours(items[-1]):
            return None
        await self._follow(items[:-1] or [_EMPTIED])
        return cast("TResponseInputItem", items[-1])

    async def clear_session(self) -> None:
        """Empty the history; the log keeps what was said."""
        if await self._read():
            await self._follow([_EMPTIED])

    async def fit_input(self, data: CallModelData[Any]) -> ModelInputData:
        """The input of a model call that fits the window; for `RunConfig`.

        A failure is logged and counted, and the input goes out as it was.
        """
        given, own = data.model_data, self._own_model
        if own is not None:
            own.ask = partial(_ask_agent, data, as_it_stands(given.input, self._last))
        body = {
            "input": given.input,
            "instructions": given.instructions or "",
            "tools": [_definition_of(tool) for tool in data.agent.tools],
        }
        fitted = None
        with self._failures.isolate("fitting the window"):
            fitted = await self._session.fit(
                body, offload_over_tokens=self._offload_over, model=_model_of(data)
            )
        if fitted is None:
            return given
        sent = [one for one in fitted.messages if one != _EMPTIED]
        shown = cast("list[TResponseInputItem]", sent)
        if own is not None:
            own.ask = partial(_ask_agent, data, sent)
            self._last = (list(given.input), sent)
        return ModelInputData(input=shown, instructions=given.instructions)

    async def _read(self) -> list[JsonObject]:
        if self._items is None:
            body = await self._session.request("responses")
            self._items = [one for one in body["input"] if isinstance(one, dict)]
        return self._items

    async def _follow(self, items: list[JsonObject]) -> None:
        """Record what is new of a history, and show what is left of it."""
        fitted = await self._session.fit({"input": items}, relieve=False, is_sent=False)
        self._items = fitted.messages

    def _make_tool(self, definition: JsonObject) -> Tool:
        async def run(context: ToolContext[Any], arguments: str) -> str:
            call = {
                "type": "function_call",
                "call_id": context.tool_call_id,
                "name": context.tool_name,
                "arguments": arguments or "{}",
            }
            return str((await self._kit.call(call))["output"])

        return FunctionTool(
            name=str(definition["name"]),
            description=str(definition["description"]),
            params_json_schema=cast("dict[str, Any]", definition["parameters"]),
            on_invoke_tool=run,
            strict_json_schema=False,
        )


async def _ask_agent(data: CallModelData[Any], items: Sequence[Any]) -> Answered:
    """What the model of an agent answers to our question behind the items of a request.

    Models that the run's own config names are not known here.
    """
    agent = data.agent
    named = agent.model
    model = named if isinstance(named, Model) else MultiProvider().get_model(named)
    response = await model.get_response(
        system_instructions=data.model_data.instructions,
        input=cast("Any", with_question([plain_of(one) for one in items], "responses")),
        model_settings=agent.model_settings,
        tools=await agent.get_all_tools(RunContextWrapper(data.context)),
        output_schema=None,
        handoffs=[one if isinstance(one, Handoff) else handoff(one) for one in agent.handoffs],
        tracing=ModelTracing.DISABLED,
        previous_response_id=None,
        conversation_id=None,
        prompt=None,
    )
    said = read_answered({"output": [plain_of(one) for one in response.output]}, "responses")
    used, cached = response.usage, response.usage.input_tokens_details.cached_tokens
    counted = Usage(used.input_tokens - cached, cached, output=used.output_tokens)
    return said._replace(model=_model_of(data) or said.model, usage=counted)


def guardrail_of(guard: CallGuard) -> ToolInputGuardrail[Any]:
    """A guardrail for your own tools that holds what pins hold: `function_tool(
    tool_input_guardrails=[guardrail_of(guard)])`. It is not told how a call ended: what must run
    before another is known only where your tool calls `guard.note`."""

    def check(data: ToolInputGuardrailData) -> ToolGuardrailFunctionOutput:
        context = data.context
        try:
            told: Any = json.loads(context.tool_arguments or "{}")
        except ValueError:
            told = {}
        given = cast("dict[str, Any]", told) if isinstance(told, dict) else {}
        refusal = guard.hold(context.tool_name, given, context.tool_call_id)
        if refusal is not None:
            return ToolGuardrailFunctionOutput.reject_content(refusal)
        return ToolGuardrailFunctionOutput.allow()

    return ToolInputGuardrail(guardrail_function=check, name="pins")


def _model_of(data: CallModelData[Any]) -> str | None:
    model = data.agent.model
    name = model if isinstance(model, str) else getattr(model, "model", None)
    return name if isinstance(name, str) else None


def _definition_of(tool: Tool) -> JsonObject:
    named: JsonObject = {"type": "function", "name": tool.name}
    if isinstance(tool, FunctionTool):
        named |= {"description": tool.description, "parameters": tool.params_json_schema}
    return named


def _is_ours(item: JsonObject) -> bool:
    content = item.get("content")
    return item.get("role") == "user" and isinstance(content, str) and is_record(content)
