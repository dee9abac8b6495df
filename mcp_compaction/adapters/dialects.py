"""Answers, tool calls, results and tool definitions in the three dialects of providers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, cast

from mcp_compaction.errors import InputError
from mcp_compaction.formats import FORMATS
from mcp_compaction.formats.arrival import find_continued
from mcp_compaction.formats.content import objects_in
from mcp_compaction.formats.turns import plain_of
from mcp_compaction.model import JsonObject, Shape
from mcp_compaction.tools.arguments import Definition


class DialectCall(NamedTuple):
    """A tool call, whatever its dialect."""

    id: str
    name: str
    arguments: Any  # an object, or its JSON text


def plain_messages(messages: Iterable[Any]) -> list[JsonObject]:
    """The messages of a history; those that are plain already are the same objects."""
    return [one if _is_plain(one) else plain_of(one) for one in messages]


def _is_plain(value: Any) -> bool:
    """Whether a value is JSON all through: an object of an SDK may stand at any depth."""
    if isinstance(value, dict):
        return all(map(_is_plain, cast("dict[str, Any]", value).values()))
    if isinstance(value, list):
        return all(map(_is_plain, cast("list[Any]", value)))
    return value is None or isinstance(value, str | int | float)


class Request(NamedTuple):
    """A request of a loop: its messages, and the body that they stand in."""

    messages: list[Any]
    body: Mapping[str, Any] | None  # None: it is a bare list
    key: str  # under which the body has them

    @property
    def beside(self) -> JsonObject:
        """All of the body that counts in a window, or says of which model it is."""
        body = self.body or {}
        return {key: plain_of(body[key]) for key in _BESIDE if key in body}

    def with_messages(self, messages: list[JsonObject]) -> Any:
        """The same request with other messages."""
        return messages if self.body is None else {**self.body, self.key: messages}


_BESIDE = ("system", "instructions", "tools", "model")


def read_request(request: Any) -> Request:
    """A list of messages, or the body of a request with such a list."""
    if not isinstance(request, Mapping):
        return Request(list(request), None, "")
    body = cast("Mapping[str, Any]", request)
    key = "thread" if body.get("thread") else find_continued(body)
    if key is not None:
        raise InputError(
            f"with {key} the provider keeps this conversation, and its window would never shrink; "
            f"send the whole history each time, without {key}."
        )
    key = "input" if "input" in body else "messages"
    found: Any = body.get(key) or ()
    asked = [{"role": "user", "content": found}] if isinstance(found, str) else found
    return Request(list(asked), body, key)


def calls_in(message: JsonObject) -> list[JsonObject]:
    """The tool calls of a message, as it has them."""
    if message.get("type") == "function_call":
        return [message]
    content = message.get("content")
    blocks = objects_in(content) if isinstance(content, list) else []
    calls = [block for block in blocks if block.get("type") == "tool_use"]
    return calls + objects_in(message.get("tool_calls") or [])


def read_call(block: Any) -> DialectCall | None:
    """The call that a block is; None where it is none."""
    if isinstance(block, dict):
        call = cast("dict[str, Any]", block)
    else:
        found = plain_of(block)
        if not isinstance(found, dict):
            return None
        call = cast("dict[str, Any]", found)
    if call.get("type") == "tool_use":
        return DialectCall(str(call.get("id")), str(call.get("name")), call.get("input") or {})
    if call.get("type") == "function_call":
        return DialectCall(
            str(call.get("call_id")), str(call.get("name")), call.get("arguments") or "{}"
        )
    function = call.get("function")
    if not isinstance(function, dict):
        return None
    named = cast("dict[str, Any]", function)
    return DialectCall(str(call.get("id")), str(named.get("name")), named.get("arguments") or "{}")


def arguments_of(call: DialectCall) -> dict[str, Any]:
    """The arguments of a call, as an object."""
    given: Any = call.arguments
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except ValueError:
            given = None
    if not isinstance(given, dict):
        raise InputError("the arguments are no JSON object; nothing was done. Call again with one.")
    return cast("dict[str, Any]", given)


def make_result(call: DialectCall, text: str, is_error: bool, shape: Shape) -> JsonObject:
    """The result of a call: a block of Anthropic's next user message, else a message."""
    match shape:
        case "anthropic":
            result: JsonObject = {"type": "tool_result", "tool_use_id": call.id, "content": text}
            return {**result, "is_error": True} if is_error else result
        case "openai":
            return {"role": "tool", "tool_call_id": call.id, "content": text}
        case "responses":
            return {"type": "function_call_output", "call_id": call.id, "output": text}


def result_messages(results: Sequence[JsonObject], shape: Shape) -> list[JsonObject]:
    """The messages that results of tool calls add to a history."""
    if shape != "anthropic" or not results:
        return list(results)
    return [{"role": "user", "content": list(results)}]


def make_definition(tool: Definition, shape: Shape) -> JsonObject:
    """The definition of a tool, ready for a request."""
    named: JsonObject = {"name": tool.name, "description": tool.description}
    match shape:
        case "anthropic":
            return {**named, "input_schema": tool.schema}
        case "openai":
            return {"type": "function", "function": {**named, "parameters": tool.schema}}
        case "responses":
            return {"type": "function", **named, "parameters": tool.schema}


def has_open_calls(messages: Sequence[JsonObject], shape: Shape) -> bool:
    """Whether a history ends before all calls of its last answer have their results."""
    form = FORMATS[shape]
    answered: set[str] = set()
    called: set[str] = set()
    for obj in reversed(messages):
        piece = form.piece_of(obj)
        if not piece.said and called:
            break
        answered.update(piece.results)
        called.update(piece.calls)
        if piece.said and not piece.binds:
            break
    return not called <= answered


def find_block(
    messages: Sequence[JsonObject], place: tuple[int, int], shape: Shape
) -> tuple[int, int]:
    """The place of a block that Anthropic's API names, among messages of a dialect.

    In others' dialects each result is a message, and so is what is said to the system; all of a
    message's blocks are meant.
    """
    if shape == "anthropic":
        return place
    number, was_said = -1, None
    for index, message in enumerate(messages):
        if message.get("role") in ("system", "developer"):
            continue
        is_said = message.get("role") == "assistant"
        number += 1 if is_said or is_said != was_said else 0
        was_said = is_said
        if number == place[0] and is_said:
            return index, 0
    return 0, 0


def count_compacted_by_api(messages: Sequence[JsonObject]) -> int:
    """How many messages Anthropic's own compaction stands for, with the step that holds it."""
    for place in reversed(range(len(messages))):
        content = messages[place].get("content")
        if any(block.get("type") == "compaction" for block in objects_in(content)):
            piece = FORMATS["anthropic"].piece_of
            rest = messages[place + 1 :]
            is_answered = bool(rest) and bool(piece(rest[0]).results)
            return place + 1 + (1 if is_answered else 0)
    return 0
