"""LangChain's messages as plain ones of OpenAI's chat shape, and back; and the session that each
thread of a graph is recorded in.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Self, TypeVar, cast

from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    HumanMessage,
    ToolMessage,
    convert_to_messages,
)

from mcp_compaction import compactor
from mcp_compaction.adapters.dialects import find_block
from mcp_compaction.adapters.guard import Failures
from mcp_compaction.api.blocking import BlockingSession, BlockingStore, open_store
from mcp_compaction.api.handles import OpenSession
from mcp_compaction.compactor.histories import Layout
from mcp_compaction.errors import InputError
from mcp_compaction.formats.thinking import Left, sending_of, thinking_in, without_thinking
from mcp_compaction.model import JsonObject

_ROLES = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool"}
_CALL_BLOCKS = ("tool_use", "tool_call", "function_call")  # which stand in `tool_calls`, too
_MODEL_KEYS = ("model_name", "model", "model_id")
_ID = "langchain id "  # begins a key: a message made of several keeps all their ids

T = TypeVar("T")


def plain_of(message: AnyMessage, *, with_usage: bool = False) -> JsonObject:
    """A message as a plain one, which bears its id.

    `with_usage`: with what the provider counted, so that the fill follows it.
    """
    plain: JsonObject = {
        "role": _ROLES.get(message.type, "user"),
        "content": _content_of(message),
        "refusal": None,  # a key of this shape alone: nobody has to guess it
    }
    if message.id is not None:
        plain[_ID + message.id] = True
    if isinstance(message, ToolMessage):
        plain["tool_call_id"] = message.tool_call_id
    if isinstance(message, AIMessage):
        if message.tool_calls:
            plain["tool_calls"] = [_plain_call(dict(call)) for call in message.tool_calls]
        usage = message.usage_metadata
        if with_usage and usage is not None:
            plain["usage"] = {
                "input_tokens": usage["input_tokens"],
                "output_tokens": usage["output_tokens"],
            }
    return plain


def _plain_call(call: Mapping[str, Any]) -> JsonObject:
    arguments = json.dumps(call["args"], ensure_ascii=False, default=str)
    function: JsonObject = {"name": call["name"], "arguments": arguments}
    return {"id": call["id"] or call["name"], "type": "function", "function": function}


def _content_of(message: AnyMessage) -> Any:
    content = cast("str | list[Any]", message.content)  # pyright: ignore[reportUnknownMemberType]
    if isinstance(content, str):
        return content
    blocks = [{"type": "text", "text": one} if isinstance(one, str) else one for one in content]
    kept = [one for one in blocks if one.get("type") not in _CALL_BLOCKS]
    return json.loads(json.dumps(kept, default=str))


def messages_of(layout: Layout, own: Sequence[AnyMessage]) -> list[AnyMessage]:
    """The messages that stand for a history; what stays whole is the very message it was."""
    by_id = {message.id: message for message in own}
    found: list[AnyMessage] = []
    for one in layout.apply(own):
        if not isinstance(one, dict):
            found.append(one)
            continue
        known = [by_id[key] for key in _ids_in(one) if key in by_id]
        if len(known) == 1:
            found.append(_show_shorter(known[0], one))
        else:
            found += known or _build(one)
    return found


def _ids_in(obj: JsonObject) -> list[str]:
    return [key.removeprefix(_ID) for key in obj if key.startswith(_ID)]


def _show_shorter(message: AnyMessage, obj: JsonObject) -> AnyMessage:
    update: dict[str, Any] = {"content": obj.get("content") or ""}
    if isinstance(message, AIMessage) and message.tool_calls:
        (shown,) = convert_to_messages([_without_ids(obj)])
        if isinstance(shown, AIMessage):
            update["tool_calls"] = shown.tool_calls
    return message.model_copy(update=update)


def _build(obj: JsonObject) -> list[AnyMessage]:
    """A message that LangChain does not have: a record of ours, or one from the archive."""
    if obj.get("role") == "user":
        return [HumanMessage(content=cast("Any", obj.get("content")))]
    return cast("list[AnyMessage]", convert_to_messages([_without_ids(obj)]))


def _without_ids(obj: JsonObject) -> dict[str, Any]:
    plain = {k: v for k, v in obj.items() if not k.startswith(_ID) and k != "refusal"}
    return {**plain, "content": plain.get("content") or ""}


def model_of(messages: Sequence[AnyMessage]) -> str | None:
    """The model that has answered last; None where no answer names one."""
    answers = (one for one in reversed(messages) if isinstance(one, AIMessage))
    told = (one.response_metadata.get(key) for one in answers for key in _MODEL_KEYS)
    return next((name for name in told if isinstance(name, str) and name), None)


async def leave_thinking(
    session: OpenSession, own: Sequence[AnyMessage], shown: Sequence[AnyMessage]
) -> list[AnyMessage]:
    """The messages that are shown for a history, without thinking that is bound to another one."""
    given, laid = [_essence_of(one) for one in own], [_essence_of(one) for one in shown]
    work, model = session.store.workspace, model_of(own) or ""
    left = await compactor.leave_out_thinking(
        work, session.info, sending_of(given, {}), sending_of(laid, {}), model, "openai"
    )
    return list(shown) if left is None else _take(left, laid, shown)


async def leave_refused(
    session: OpenSession, sent: Sequence[AnyMessage], place: tuple[int, int]
) -> list[AnyMessage]:
    """What to send after a provider refused a thinking block: the message, and the block."""
    laid, model = [_essence_of(one) for one in sent], model_of(sent) or ""
    named = find_block(laid, place, "openai")
    work = session.store.workspace
    left = await compactor.take_refusal(work, session.info, sending_of(laid, {}), model, named)
    return _take(left, laid, sent)


def _essence_of(message: AnyMessage) -> JsonObject:
    """What a provider reads of a message: an id that the graph gives it is none of that."""
    return {key: value for key, value in plain_of(message).items() if not key.startswith(_ID)}


def _take(left: Left, laid: Sequence[JsonObject], shown: Sequence[AnyMessage]) -> list[AnyMessage]:
    found: list[AnyMessage] = []
    for obj, place in zip(left.messages, left.places, strict=True):
        message = shown[place]
        if obj is not laid[place]:
            message = message.model_copy(update={"content": _without_thinking(message, obj)})
        found.append(message)
    return found


def _without_thinking(message: AnyMessage, obj: JsonObject) -> Any:
    """The content of a message with only as many thinking blocks as its plain form has."""
    content = {"role": "assistant", "content": message.content}  # pyright: ignore[reportUnknownMemberType]
    bare = without_thinking(cast("JsonObject", content), len(thinking_in(obj)))
    return "" if bare is None else bare["content"]


def is_same(one: Sequence[AnyMessage], other: Sequence[AnyMessage]) -> bool:
    """Whether two windows show the same."""
    return len(one) == len(other) and all(
        a is b or _compared_fields(a) == _compared_fields(b)
        for a, b in zip(one, other, strict=True)
    )


def _compared_fields(message: AnyMessage) -> list[Any]:
    plain = plain_of(message)
    return [plain.get(key) for key in ("role", "content", "tool_calls", "tool_call_id")]


class Sessions:
    """A store that is open within `with` or `async with`, and the sessions in it.

    The store's event loop has a thread of its own, so that `invoke` and `ainvoke` of one graph
    may both use it.
    """

    def __init__(self, settings: dict[str, Any]) -> None:
        self._settings = settings
        self._stack = ExitStack()
        self._store: BlockingStore | None = None
        self.failures = Failures("graph")

    def __enter__(self) -> Self:
        self._store = self._stack.enter_context(open_store(**self._settings))
        return self

    def __exit__(self, *error: Any) -> None:
        self._store = None
        self._stack.__exit__(*error)

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.__enter__)

    async def __aexit__(self, *error: Any) -> None:
        await asyncio.to_thread(self.__exit__, *error)

    def open(self, name: str) -> BlockingSession:
        """The session of that name."""
        if self._store is None:
            raise InputError("the store is closed; use this inside its `with` or `async with`.")
        return self._store.session(name)

    def run(self, name: str, work: Callable[[OpenSession], Coroutine[Any, Any, T]]) -> T:
        """What some work with a session gives; it runs in the store's own thread."""
        session = self.open(name)
        return session.portal.call(work, session.handle)


class InStore:
    """What is used inside `with` or `async with`, while the store of its sessions is open."""

    _sessions: Sessions

    def __enter__(self) -> Self:
        self._sessions.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._sessions.__exit__(*error)

    async def __aenter__(self) -> Self:
        await self._sessions.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._sessions.__aexit__(*error)

    @property
    def failures(self) -> int:
        """How often something failed here; each is logged, and the graph went on."""
        return self._sessions.failures.count
