"""Reads an answer while it passes: what the model said, and what the provider counted.

What cannot be read is no fault: it is passed on all the same, and the next request brings it.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Protocol, cast

from mcp_compaction.formats.usage import Usage, read_usage
from mcp_compaction.lexicon.models import is_overflow
from mcp_compaction.model import JsonObject, Shape

READABLE = ("gzip", "deflate")
_MOST = 32 * 2**20  # bytes of an answer that is not streamed


class Answer(NamedTuple):
    """The message and the counted tokens of an answer."""

    message: JsonObject | None = None  # the response, as if it had not been streamed
    usage: Usage | None = None


_UNREADABLE = (ValueError, TypeError, LookupError, AttributeError, RecursionError, zlib.error)


class AnswerReader:
    """Reads the pieces of one answer in whatever sizes they come."""

    def __init__(self, shape: Shape, headers: Mapping[str, str]) -> None:
        self._unpack = _unpacker_of(headers.get("content-encoding", ""))
        is_stream = "text/event-stream" in headers.get("content-type", "")
        self._whole: bytearray | None = None if is_stream else bytearray()
        self._rest = b""
        self.has_overflow = False  # the stream has told that the request was too large
        self._told: _Telling = {
            "anthropic": _Messages,
            "responses": _Responses,
            "openai": _Chat,
        }[shape]()

    def feed(self, piece: bytes) -> None:
        """Take the next piece; whatever is wrong with it, the reader gives up and says nothing."""
        if self._unpack is None:
            return
        try:
            plain = self._unpack(piece)
            if self._whole is None:
                self._feed_events(plain)
                return
            self._whole.extend(plain)
            if len(self._whole) > _MOST:
                self._unpack = None
        except _UNREADABLE:
            self._unpack = None

    def end(self) -> Answer:
        """The message and the counted tokens, when nothing more comes."""
        if self._unpack is None:
            return Answer()
        try:
            if self._whole is None:
                return self._told.answer()
            message: object = json.loads(self._whole)
        except _UNREADABLE:
            return Answer()
        if not isinstance(message, dict):
            return Answer()
        said = cast("JsonObject", message)
        return Answer(said, read_usage(said.get("usage")))

    def _feed_events(self, plain: bytes) -> None:
        *lines, self._rest = (self._rest + plain).split(b"\n")
        for data in _data_in(lines):
            event: object = json.loads(data)
            if isinstance(event, dict):
                told = cast("dict[str, Any]", event)
                self.has_overflow |= is_overflow(_error_in(told))
                self._told.hear(told)


def _error_in(event: dict[str, Any]) -> str:
    """The error that an event tells of, in a stream that began well; empty: it tells of none."""
    response: object = event.get("response")
    inner = cast("dict[str, Any]", response) if isinstance(response, dict) else {}
    error: object = event.get("error") or inner.get("error")
    return json.dumps(error) if error else ""


def _data_in(lines: list[bytes]) -> Iterator[bytes]:
    # Every provider writes an event's data on one line.
    for line in lines:
        if line.startswith(b"data:"):
            data = line[5:].strip()
            if data != b"[DONE]":
                yield data


def _unpacker_of(encoding: str) -> Any:
    match encoding.strip().lower():
        case "" | "identity":
            return bytes
        case "gzip" | "deflate":
            return zlib.decompressobj(zlib.MAX_WBITS | 32).decompress
        case _:
            return None


class _Telling(Protocol):
    """The events of one API, put together."""

    def hear(self, event: dict[str, Any]) -> None:
        """Take one event."""
        ...

    def answer(self) -> Answer:
        """The answer that the events tell; without its end there is none."""
        ...


class _Messages:
    """The events of the Messages API."""

    def __init__(self) -> None:
        self._message: dict[str, Any] = {}
        self._usage: dict[str, Any] = {}
        self._arguments: dict[int, str] = {}
        self._is_known = True  # every event is one whose meaning is known
        self._has_ended = False

    def hear(self, event: dict[str, Any]) -> None:
        """Take one event."""
        match event.get("type"):
            case "message_start":
                self._message = {**event["message"], "content": []}
                self._usage.update(event["message"].get("usage") or {})
            case "content_block_start":
                self._message["content"].append({**event["content_block"]})
            case "content_block_delta":
                self._hear_delta(event["index"], event["delta"])
            case "content_block_stop":
                said = self._arguments.pop(event["index"], None)
                if said is not None:
                    self._message["content"][event["index"]]["input"] = json.loads(said or "{}")
            case "message_delta":
                self._message.update(event["delta"])
                if event.get("input_transformations"):
                    self._message["input_transformations"] = event["input_transformations"]
                told: dict[str, Any] = event.get("usage") or {}
                self._usage.update({k: v for k, v in told.items() if v is not None})
            case "message_stop":
                self._has_ended = True
            case _:
                pass

    def _hear_delta(self, index: int, delta: dict[str, Any]) -> None:
        block = self._message["content"][index]
        match delta.get("type"):
            case "text_delta":
                block["text"] += delta["text"]
            case "thinking_delta":
                block["thinking"] += delta["thinking"]
            case "signature_delta":
                block["signature"] = delta["signature"]
            case "input_json_delta":
                self._arguments[index] = self._arguments.get(index, "") + delta["partial_json"]
            case "citations_delta":
                block["citations"] = [*(block.get("citations") or []), delta["citation"]]
            case "compaction_delta":
                block["content"] = (block.get("content") or "") + (delta.get("content") or "")
            case _:
                self._is_known = False

    def answer(self) -> Answer:
        """The message, and its usage."""
        usage = read_usage(self._usage)
        if not (self._has_ended and self._is_known):
            return Answer(None, usage)
        return Answer({**self._message, "usage": self._usage}, usage)


class _Responses:
    """The events of the Responses API; the last one has it all."""

    def __init__(self) -> None:
        self._items: list[Any] = []
        self._response: dict[str, Any] | None = None

    def hear(self, event: dict[str, Any]) -> None:
        """Take one event."""
        if event.get("type") == "response.output_item.done":
            self._items.append(event["item"])
        elif event.get("type") in ("response.completed", "response.incomplete"):
            self._response = event["response"]

    def answer(self) -> Answer:
        """The response, and its usage."""
        if self._response is None:
            return Answer()
        whole = {**self._response, "output": self._response.get("output") or self._items}
        return Answer(whole, read_usage(whole.get("usage")))


class _Chat:
    """The chunks of a chat completion."""

    def __init__(self) -> None:
        self._message: dict[str, Any] = {"role": "assistant", "content": None}
        self._calls: dict[int, dict[str, Any]] = {}
        self._usage: Any = None
        self._model: Any = None
        self._has_ended = False

    def hear(self, event: dict[str, Any]) -> None:
        """Take one chunk."""
        self._usage = event.get("usage") or self._usage
        self._model = event.get("model") or self._model
        choices: list[dict[str, Any]] = event.get("choices") or []
        for choice in choices:
            if choice.get("index", 0) != 0:
                continue
            delta: dict[str, Any] = choice.get("delta") or {}
            if delta.get("content"):
                self._message["content"] = (self._message["content"] or "") + delta["content"]
            calls: list[dict[str, Any]] = delta.get("tool_calls") or []
            for call in calls:
                self._hear_call(call)
            self._has_ended = self._has_ended or choice.get("finish_reason") is not None

    def _hear_call(self, call: dict[str, Any]) -> None:
        known = self._calls.setdefault(
            call.get("index", 0),
            {"id": "", "type": "function", "function": {"name": "", "arguments": ""}},
        )
        function: dict[str, Any] = call.get("function") or {}
        known["id"] = call.get("id") or known["id"]
        known["function"]["name"] = function.get("name") or known["function"]["name"]
        known["function"]["arguments"] += function.get("arguments") or ""

    def answer(self) -> Answer:
        """The completion, and its usage."""
        usage = read_usage(self._usage)
        if not self._has_ended:
            return Answer(None, usage)
        calls = [self._calls[index] for index in sorted(self._calls)]
        message = {**self._message, **({"tool_calls": calls} if calls else {})}
        choice: Any = {"index": 0, "message": message}
        return Answer({"model": self._model, "usage": self._usage, "choices": [choice]}, usage)


def text_of_error(body: bytes, headers: Mapping[str, str]) -> str:
    """The text of an error's body, as far as it can be read."""
    if headers.get("content-encoding", "").lower() in READABLE:
        try:
            body = zlib.decompressobj(zlib.MAX_WBITS | 32).decompress(body)
        except zlib.error:
            return ""
    return body.decode("utf-8", "replace")
