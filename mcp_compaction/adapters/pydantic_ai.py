"""Pydantic AI: a capability that fits each request into the window and offers the context tools.

    async with open_store(window_tokens=200_000) as store:
        compaction = Compaction(await store.session("tax-2026"))
        agent = Agent("anthropic:…", capabilities=[compaction])
        await agent.run("Sort the receipts.")

Only the request that goes out is made smaller: `all_messages()` and `new_messages()` of a run stay
whole. `ProcessHistory(compaction.process)` replaces the run's own history instead; its digests are
recognized when they come back.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from typing import Any, NamedTuple, cast

if not find_spec("pydantic_ai"):
    raise ImportError(
        "Pydantic AI is not installed; install it with: pip install 'mcp-compaction[pydantic-ai]'"
    )

from pydantic_ai import FunctionToolset, RunContext, Tool
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import (
    BinaryContent,
    FileUrl,
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    RetryFeedbackPart,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import Model, ModelRequestContext, ModelRequestParameters
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from mcp_compaction.adapters.guard import CallGuard, Failures
from mcp_compaction.adapters.loop import LoopKit
from mcp_compaction.adapters.session_model import SummarizerName, as_it_stands, find_own_model
from mcp_compaction.api.handles import OpenSession
from mcp_compaction.compactor.histories import Layout
from mcp_compaction.formats.identity import fingerprint_of
from mcp_compaction.formats.usage import Usage
from mcp_compaction.model import JsonObject
from mcp_compaction.summarizers.session_model import QUESTION, Answered

__all__ = ["CompactionCapability", "GuardCapability"]

_STAMP = "pydantic ai "  # begins a key: by it a message that is shown shorter is known again


class CompactionCapability(AbstractCapability[Any]):
    """A session of a store as a capability of an agent."""

    def __init__(
        self,
        session: OpenSession,
        *,
        offload_over_tokens: int | None = 20_000,
        summarizer: SummarizerName = None,
    ) -> None:
        """A capability on an open session.

        A tool result of more tokens than `offload_over_tokens` becomes a preview with its ref
        when it comes; None: never. `summarizer`: "session" has the agent's own model write the
        handover of a compaction, over the request as it stands.
        """
        self._failures = Failures("run")
        self._session = session
        self._offload_over = offload_over_tokens
        self._kit = LoopKit(session, shape="openai")
        self._own_model = find_own_model(session, summarizer)
        self._last: tuple[list[ModelMessage], list[ModelMessage]] = ([], [])  # came, and was sent
        self._toolset = FunctionToolset[Any]([self._make_tool(one) for one in self._kit.tools])

    @property
    def failures(self) -> int:
        """How often fitting the window failed; each is logged, and the run went on."""
        return self._failures.count

    @classmethod
    def get_serialization_name(cls) -> str | None:
        """None: an open store cannot be written down."""
        return None

    def get_toolset(self) -> FunctionToolset[Any]:
        """The context tools."""
        return self._toolset

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Fit a request into the window; the history of the run stays as it is."""
        came, own = list(request_context.messages), self._own_model
        called = _Called(
            request_context.model,
            request_context.model_settings,
            request_context.model_request_parameters,
        )
        if own is not None:
            own.ask = partial(called.ask, as_it_stands(came, self._last))
        request_context.messages = sent = await self._fit(
            came, called.model.model_name, _print_beside(request_context)
        )
        if own is not None:
            own.ask = partial(called.ask, sent)
            self._last = (came, sent)
        return request_context

    async def process(self, messages: list[ModelMessage]) -> list[ModelMessage]:
        """The messages to send in place of a history.

        A failure is logged and counted, and the messages are given back as they were.
        """
        answers = (one for one in reversed(messages) if isinstance(one, ModelResponse))
        model = next((one.model_name for one in answers if one.model_name), None)
        return await self._fit(messages, model)

    async def _fit(
        self, messages: list[ModelMessage], model: str | None, beside: bytes = b""
    ) -> list[ModelMessage]:
        pieces = [piece for message in messages for piece in _pieces_of(message)]
        plain = [piece.plain for piece in pieces]
        fitted = None
        with self._failures.isolate("fitting the window"):
            fitted = await self._session.fit(
                plain, offload_over_tokens=self._offload_over, model=model, beside=beside
            )
        if fitted is None:
            return messages
        return _messages_of(fitted.layout, pieces)

    def _make_tool(self, definition: JsonObject) -> Tool[Any]:
        described = cast("dict[str, Any]", definition["function"])

        async def run(ctx: RunContext[Any], **arguments: Any) -> str:
            function = {"name": described["name"], "arguments": json.dumps(arguments)}
            call = {"id": ctx.tool_call_id, "type": "function", "function": function}
            return str((await self._kit.call(call))["content"])

        return Tool[Any].from_schema(
            run,
            name=described["name"],
            description=described["description"],
            json_schema=described["parameters"],
            takes_ctx=True,
        )


class _Called(NamedTuple):
    """Which model a run calls, and how."""

    model: Model
    settings: ModelSettings | None
    parameters: ModelRequestParameters

    async def ask(self, messages: Sequence[ModelMessage]) -> Answered:
        """What the model answers to our question behind the messages of a request."""
        *before, last = messages
        question = UserPromptPart(QUESTION)
        asked = (
            [*before, replace(last, parts=[*last.parts, question])]
            if isinstance(last, ModelRequest)
            else [*messages, ModelRequest(parts=[question])]
        )
        answer = await self.model.request(asked, self.settings, self.parameters)
        said = "\n".join(part.content for part in answer.parts if isinstance(part, TextPart))
        used = answer.usage
        fresh = used.input_tokens - used.cache_read_tokens
        counted = Usage(fresh=fresh, cached=used.cache_read_tokens, output=used.output_tokens)
        return Answered(said, answer.model_name or self.model.model_name, counted)


class GuardCapability(AbstractCapability[Any]):
    """A guard as a capability of an agent: a call that a pin holds is answered in place of its
    tool."""

    def __init__(self, guard: CallGuard) -> None:
        """A capability that asks a guard."""
        self._guard = guard

    @classmethod
    def get_serialization_name(cls) -> str | None:
        """None: a guard cannot be written down."""
        return None

    async def wrap_tool_execute(
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: dict[str, Any],
        handler: Callable[[dict[str, Any]], Awaitable[Any]],
    ) -> Any:
        """Run the tool, unless it is held."""
        refusal = self._guard.hold(call.tool_name, args, call.tool_call_id)
        if refusal is not None:
            return refusal
        try:
            result = await handler(args)
        except Exception:
            self._guard.note(call.tool_name, args, failed=True)
            raise
        self._guard.note(call.tool_name, args, str(result))
        return result


def _print_beside(context: ModelRequestContext) -> bytes:
    """The fingerprint of what a request has beside its messages."""
    parameters = context.model_request_parameters
    tools = [*parameters.function_tools, *parameters.output_tools]
    offered = [[one.name, one.description, one.parameters_json_schema] for one in tools]
    requests = (one for one in reversed(context.messages) if isinstance(one, ModelRequest))
    told = next((one.instructions for one in requests if one.instructions), None)
    return fingerprint_of(cast("Any", [told, offered]))


class _Piece(NamedTuple):
    """A message, or one part of a request, with what it is as a plain message."""

    plain: JsonObject
    message: ModelMessage
    part: ModelRequestPart | None  # None: the whole message


def _pieces_of(message: ModelMessage) -> list[_Piece]:
    if isinstance(message, ModelResponse):
        return [_Piece(_plain_response(message), message, None)]
    return [_Piece(_plain_part(part), message, part) for part in message.parts]


def _plain_response(message: ModelResponse) -> JsonObject:
    said = [part.content for part in message.parts if isinstance(part, TextPart)]
    thought = [part.content for part in message.parts if isinstance(part, ThinkingPart)]
    calls = [part for part in message.parts if isinstance(part, ToolCallPart)]
    plain = _make_plain("assistant", "\n".join(said), f"{message.timestamp.isoformat()} answer")
    if thought:
        plain["reasoning_content"] = "\n".join(thought)
    if signed := _signed_in(message):
        plain["thinking_blocks"] = [_plain_thinking(part) for part in signed]
    if calls:
        plain["tool_calls"] = [
            {
                "id": call.tool_call_id,
                "type": "function",
                "function": {"name": call.tool_name, "arguments": call.args_as_json_str()},
            }
            for call in calls
        ]
    return plain


def _signed_in(message: ModelResponse) -> list[ThinkingPart]:
    return [p for p in message.parts if isinstance(p, ThinkingPart) and p.signature]


def _plain_thinking(part: ThinkingPart) -> JsonObject:
    if part.id == "redacted_thinking":
        return {"type": "redacted_thinking", "data": part.signature}
    return {"type": "thinking", "thinking": part.content, "signature": part.signature}


def _without_thinking(message: ModelResponse, shown: JsonObject) -> ModelResponse:
    """An answer with only those of its signed thoughts that are shown."""
    blocks = shown.get("thinking_blocks")
    gone = _signed_in(message)[len(blocks) if isinstance(blocks, list) else 0 :]
    kept = [part for part in message.parts if not any(part is one for one in gone)]
    return replace(message, parts=kept) if gone else message


def _plain_part(part: ModelRequestPart) -> JsonObject:
    stamp = f"{getattr(part, 'timestamp', '')} {part.part_kind}"
    match part:
        case SystemPromptPart():
            return _make_plain("system", part.content, stamp)
        case UserPromptPart():
            return _make_plain("user", _content_of(part), stamp)
        case ToolReturnPart():
            plain = _make_plain("tool", part.model_response_str(), f"{stamp} {part.tool_call_id}")
            return {**plain, "tool_call_id": part.tool_call_id}
        case RetryFeedbackPart():
            return _make_plain("user", part.model_response(), stamp)
        case _:
            return _make_plain("system", f"[{part.part_kind}]", stamp)


def _make_plain(role: str, content: Any, stamp: str) -> JsonObject:
    # `refusal` is a key of this shape alone: nobody has to guess it.
    return {"role": role, "content": content, "refusal": None, _STAMP + stamp: True}


def _content_of(part: UserPromptPart) -> Any:
    if isinstance(part.content, str):
        return part.content
    blocks: list[JsonObject] = []
    for one in part.content:
        if isinstance(one, str):
            blocks.append({"type": "text", "text": one})
        elif isinstance(one, FileUrl):
            blocks.append({"type": "image_url", "image_url": {"url": one.url}})
        elif isinstance(one, BinaryContent):
            blocks.append({"type": "image_url", "image_url": {"url": f"data:{one.media_type}"}})
        else:
            blocks.append({"type": "text", "text": str(getattr(one, "content", ""))})
    return blocks


def _messages_of(layout: Layout, pieces: Sequence[_Piece]) -> list[ModelMessage]:
    """The messages that stand for a history; one that stays whole is the very message it was."""
    by_stamp = {_stamp_of(piece.plain): piece for piece in pieces}
    groups: list[tuple[ModelMessage | None, list[Any]]] = []
    for one in layout.apply(pieces):
        obj = one if isinstance(one, dict) else None
        piece = one if isinstance(one, _Piece) else by_stamp.get(_stamp_of(one))
        if piece is None:
            groups.append((None, [UserPromptPart(_text_of(obj or {}))]))
            continue
        part = piece.part
        if isinstance(piece.message, ModelResponse) and obj is not None:
            groups.append((_without_thinking(piece.message, obj), [None]))
            continue
        if part is not None and obj is not None:
            part = replace(cast("Any", part), content=_text_of(obj))
        if groups and groups[-1][0] is piece.message:
            groups[-1][1].append(part)
        else:
            groups.append((piece.message, [part]))
    return [_join(message, parts) for message, parts in groups]


def _join(message: ModelMessage | None, parts: list[Any]) -> ModelMessage:
    if message is None:
        return ModelRequest(parts=parts)
    is_whole = isinstance(message, ModelResponse) or (
        len(parts) == len(message.parts)
        and all(one is other for one, other in zip(parts, message.parts, strict=True))
    )
    return message if is_whole else replace(message, parts=parts)


def _stamp_of(obj: JsonObject) -> str | None:
    return next((key for key in obj if key.startswith(_STAMP)), None)


def _text_of(obj: JsonObject) -> str:
    """The text of a message that is shown shorter, or of a record; another is told in words."""
    content = obj.get("content")
    return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
