"""Input of callers: one message, a list, a whole request body, a JSON document or JSONL; and the
messages that a provider's answer adds to a history.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, cast, get_args

from pydantic import JsonValue

from mcp_compaction.errors import MalformedMessage
from mcp_compaction.formats.content import (
    check_depth,
    check_size,
    dump_original,
    is_encodable,
    objects_in,
    parse,
    scrub,
    text_or_empty,
)
from mcp_compaction.formats.foreign import detect, is_item_type, refuse_foreign, sure_shape
from mcp_compaction.formats.show import FORMATS
from mcp_compaction.formats.turns import split_turns
from mcp_compaction.model import (
    AgentProfile,
    Complexity,
    HeardVia,
    JsonObject,
    Sections,
    Shape,
    Speaker,
    Traits,
    Value,
)

_SECTION_KEYS = ("system", "instructions", "tools", "task", "memory")
_TRAIT_KEYS: dict[str, object] = {"complexity": Complexity, "agent_profile": AgentProfile}
_BODY_KEYS = ("messages", "input", *_SECTION_KEYS, *_TRAIT_KEYS)

_SAID = ("content", "tool_calls")


class IncomingMessage(Value):
    """One message as it came: its shape, its JSON text and what the host says about it."""

    shape: Shape
    raw: str
    host_id: str | None = None
    early_id: str | None = None  # under which a hook may have told of it before the host wrote it
    at: datetime | None = None
    via: HeardVia | None = None  # None: as all that came with it
    speaker: Speaker = ""


class Incoming(Value):
    """Everything a caller sent at once."""

    messages: tuple[IncomingMessage, ...]
    sections: Sections | None = None
    whole: bool = False  # a request body: the history from its start
    reported: int | None = None  # the window with the newest answer, as the provider counted it
    # The first report of several, and how many of the messages were said by then.
    first_reported: tuple[int, int] | None = None
    model: str | None = None
    title: str | None = None  # that the host gave the chat
    window_tokens: int | None = None
    complexity: Complexity | None = None
    agent_profile: AgentProfile | None = None

    def traits_over(self, known: Traits) -> Traits:
        """The traits of a session with what came put over what is known."""
        came = {
            name: getattr(self, name) for name in ("model", "title", "window_tokens", *_TRAIT_KEYS)
        }
        return known.model_copy(update={name: value for name, value in came.items() if value})


_NOTHING: JsonObject = {}
_NO_ID = "__fake_id__"  # which OpenAI's agents write where a provider gives none
_TOKENS_OF_A_CALL = (
    "input_tokens",
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
    "output_tokens",
)
_Sent = tuple[JsonObject, str, str]  # the object, its raw text, where it stands


def read_incoming(data: Any, shape: Shape | None = None) -> Incoming:
    """The messages in a JSON value: one message, a list of them or a whole request body.

    `shape`: what a list is of, where that is known from what came before it.
    """
    check_depth(data, "the message")
    if isinstance(data, list):
        return _read_messages(_dump_all(cast("list[JsonValue]", data)), shape)
    if not isinstance(data, dict):
        raise MalformedMessage(
            "there is no message in it; send a message, a list of messages or a request body."
        )
    given = cast("JsonObject", data)
    refuse_foreign(given, "the document")
    if not _is_body(given):
        return _read_messages([_dump(given, "the message")])
    return _read_body(given)


def read_incoming_text(text: str) -> Incoming:
    """The messages in a text: a JSON document, or one message on each line."""
    # Not splitlines: JSON strings may hold U+2028 and its like as they are.
    numbered = enumerate(text.removeprefix("\ufeff").split("\n"), 1)
    lines = [(n, line.removesuffix("\r")) for n, line in numbered if line.strip()]
    if not lines:
        raise MalformedMessage("there is no message in it; send JSON or one message a line.")
    if _is_document(lines):
        return read_incoming(parse("\n".join(line for _, line in lines), "the document"))
    return _read_messages([_read_line(line, f"line {number}") for number, line in lines])


def _is_document(lines: Sequence[tuple[int, str]]) -> bool:
    try:
        first = parse(lines[0][1], "line 1")
    except MalformedMessage:
        return len(lines) == 1 or not lines[0][1].rstrip().endswith("}")
    return len(lines) == 1 and (not isinstance(first, dict) or _is_body(first))


def _read_line(line: str, where: str) -> _Sent:
    check_size(line, where)
    if not is_encodable(line):
        raise MalformedMessage(f"{where} is not valid Unicode; send it as UTF-8.")
    value = parse(line, where)
    if not isinstance(value, dict):
        raise MalformedMessage(f"{where} is not a message; put one JSON object on each line.")
    refuse_foreign(value, where)
    return value, line, where


def _is_body(data: JsonObject) -> bool:
    return "role" not in data and "type" not in data and not data.keys().isdisjoint(_BODY_KEYS)


def _dump_all(data: Sequence[JsonValue]) -> list[_Sent]:
    numbered = [(value, f"message {number}") for number, value in enumerate(data, 1)]
    # All are looked at first: a whole conversation may be over the size limit of a message.
    for value, where in numbered:
        refuse_foreign(value, where)
    return [_dump(value, where) for value, where in numbered]


def _dump(value: JsonValue, where: str) -> _Sent:
    if not isinstance(value, dict):
        raise MalformedMessage(f"{where} is not an object; send an object with role and content.")
    raw = dump_original(value, where)
    check_size(raw, where)
    clean = scrub(value) if "\\ud" in raw else value
    return (clean if isinstance(clean, dict) else value), raw, where


def find_continued(body: Mapping[str, Any]) -> str | None:
    """The key by which a request body continues what its provider keeps, so that its messages are
    only the new ones; None: they are all."""
    thread: object = body.get("thread")
    if isinstance(thread, dict) and cast("JsonObject", thread).get("type") == "continue":
        return "thread"
    keys = ("previous_response_id", "conversation") if "input" in body else ()
    return next((key for key in keys if body.get(key)), None)


def _read_body(data: JsonObject) -> Incoming:
    if key := find_continued(data):
        raise MalformedMessage(
            f"with {key} this body has only what is new, and its provider the rest; send the whole "
            f"history without {key}, or a list of the new messages."
        )
    given = data.get("input") if "input" in data else data.get("messages", [])
    if isinstance(given, str):
        asked: JsonObject = {"role": "user", "content": given}
        given = [asked]
    if not isinstance(given, list):
        raise MalformedMessage("messages is not a list; send a list of messages.")
    said = [
        part for one in given for part in (split_turns([one]) if isinstance(one, dict) else [one])
    ]
    received = _read_messages(_dump_all(said), shape_of_body(data), may_be_empty=True)
    return received.model_copy(
        update={
            "whole": True,
            "sections": _read_sections(data),
            "model": text_or_empty(data.get("model")) or received.model,
            **{key: _read_choice(data, key, words) for key, words in _TRAIT_KEYS.items()},
        }
    )


def list_of_body(data: JsonObject) -> str | None:
    """The key under which a request body has its messages; None where it is no such body."""
    if not _is_body(data):
        return None
    key = "input" if "input" in data else "messages"
    return key if isinstance(data.get(key), list) else None


def read_beside_messages(data: JsonObject) -> Incoming:
    """All that stands in a request body beside its messages."""
    return _read_body({**data, "messages": []})


def sure_shape_of(messages: Sequence[JsonObject], body: JsonObject) -> Shape | None:
    """The shape of messages that may stand in a request body; None where several would fit."""
    known = shape_of_body(body)
    return known or next((shape for one in messages if (shape := sure_shape(one))), None)


def _read_choice(data: JsonObject, key: str, choices: object) -> JsonValue:
    """The word that a key of a body holds, if any; it has to be one of a Literal's."""
    words: tuple[str, ...] = get_args(choices)
    value = data.get(key)
    if value is not None and value not in words:
        raise MalformedMessage(
            f"{key} is no known word; use {', '.join(words[:-1])} or {words[-1]}."
        )
    return value


def shape_of_body(data: JsonObject) -> Shape | None:
    """The shape that a request body has by what stands beside its messages; None: any."""
    if "input" in data or "instructions" in data:
        return "responses"
    if "system" in data:
        return "anthropic"
    for tool in objects_in(data.get("tools")):
        if "input_schema" in tool:
            return "anthropic"
        if "function" in tool:
            return "openai"
    return None


def _read_sections(data: JsonObject) -> Sections | None:
    if data.keys().isdisjoint(_SECTION_KEYS):
        return None
    tools = data.get("tools") or []
    if not isinstance(tools, list) or len(objects_in(tools)) != len(tools):
        raise MalformedMessage("tools is not a list of objects; send each tool's definition.")
    for key in ("task", "memory"):
        if not isinstance(data.get(key), str | None):
            raise MalformedMessage(f"{key} is not a text; send it as a string.")
    system = data["system"] if "system" in data else data.get("instructions")
    return Sections(
        system=scrub(system),
        tools=tuple(tool for tool in map(scrub, tools) if isinstance(tool, dict)),
        task=_clean_text_of(data.get("task")),
        memory=_clean_text_of(data.get("memory")),
    )


def _clean_text_of(value: JsonValue) -> str | None:
    return text_or_empty(scrub(value)) or None


def _read_messages(
    sent: Sequence[_Sent], shape: Shape | None = None, *, may_be_empty: bool = False
) -> Incoming:
    if not sent and not may_be_empty:
        raise MalformedMessage("there is no message in it; send at least one.")
    common = shape or _find_common_shape(sent)
    # A request's own list may hold items that are newer than this program.
    is_request = shape == "responses"
    messages = tuple(_read_message(one, common, any_item=is_request) for one in sent)
    said = next((obj for obj, _, _ in reversed(sent) if obj.get("role") == "assistant"), _NOTHING)
    model = text_or_empty(scrub(said.get("model"))) or None
    return Incoming(messages=messages, reported=reported_tokens_of(said), model=model)


def _find_common_shape(sent: Sequence[_Sent]) -> Shape | None:
    for obj, _, _ in sent:
        if shape := sure_shape(obj):
            return shape
    return None


def _read_message(sent: _Sent, common: Shape | None, *, any_item: bool) -> IncomingMessage:
    obj, raw, where = sent
    shape = sure_shape(obj) or common or detect(obj)
    if shape == "responses" and not any_item:
        _check_item(obj, where)
    FORMATS[shape].read(obj, where)
    return IncomingMessage(
        shape=shape,
        raw=raw,
        host_id=_id_of(obj),
        at=parse_moment(obj.get("timestamp")) or parse_moment(obj.get("created_at")),
    )


def _id_of(obj: JsonObject) -> str | None:
    found = text_or_empty(obj.get("uuid")) or text_or_empty(obj.get("id"))
    return found if found and found != _NO_ID else None


def _check_item(obj: JsonObject, where: str) -> None:
    kind = obj.get("type", "message")
    if isinstance(kind, str) and not is_item_type(kind):
        raise MalformedMessage(
            f"{where} has the type {kind[:40]!r}, which no message has; send objects with role and "
            "content, items of the Responses API, or a whole request body."
        )


def parse_moment(value: JsonValue) -> datetime | None:
    """The moment that a text in ISO 8601 or a number of seconds or milliseconds names."""
    try:
        if isinstance(value, str):
            moment = datetime.fromisoformat(value)
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
        if isinstance(value, int | float) and not isinstance(value, bool):
            # Seconds stay below this until the year 5138; milliseconds passed it in 1973.
            return datetime.fromtimestamp(value / 1000 if value > 1e11 else value, tz=UTC)
    except (ValueError, OverflowError, OSError):
        pass
    return None


def reported_tokens_of(said: JsonObject) -> int | None:
    """The tokens of the window with this answer in it, as the provider counted them."""
    usage = said.get("usage")
    if not isinstance(usage, dict):
        return None
    if "prompt_tokens" in usage:
        details = usage.get("completion_tokens_details")
        thought = details.get("reasoning_tokens") if isinstance(details, dict) else 0
        # What a chat completion thought is not sent back to it.
        answer = max(0, _count_of(usage.get("completion_tokens")) - _count_of(thought))
        return _count_of(usage["prompt_tokens"]) + answer or None
    return sum(_count_of(_last_call_of(usage).get(key)) for key in _TOKENS_OF_A_CALL) or None


def _last_call_of(usage: JsonObject) -> JsonObject:
    """The usage of the last call to the model that one request took.

    A provider that compacts the window or runs tools by itself calls its model several times and
    adds the calls up, so that only the last one has the size of the window.
    """
    calls = usage.get("iterations")
    calls = objects_in(calls) if isinstance(calls, list) else []
    return next((c for c in reversed(calls) if c.get("type", "message") == "message"), usage)


def _count_of(value: JsonValue) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def messages_of_answer(
    answer: JsonObject, known: Shape | None = None
) -> tuple[Shape, list[JsonObject]]:
    """The messages that a caller adds to its history when it got this answer, and their shape.

    `known`: the shape of its history, for an answer that would fit several.
    """
    answer = answer if isinstance(answer, dict) else {}  # pyright: ignore[reportUnnecessaryIsInstance]
    choices = objects_in(answer.get("choices"))
    message = choices[0].get("message") if choices else None
    if isinstance(message, dict):
        return "openai", [message]
    if "output" in answer:
        return "responses", objects_in(answer["output"])
    if answer.get("role") == "assistant" and not answer.keys().isdisjoint(_SAID):
        shape = sure_shape(answer) or known or "anthropic"
        if shape == "anthropic":
            return shape, [{"role": "assistant", "content": answer.get("content")}]
        return shape, [answer]
    raise MalformedMessage(
        "this is no answer of a model; pass the response of the Messages API, of chat completions "
        "or of the Responses API, as a dict or as the object of an SDK."
    )


def read_answer(answer: JsonObject, known: Shape | None = None) -> Incoming:
    """The messages of an answer, with the model and the usage that it names."""
    shape, messages = messages_of_answer(answer, known)
    came = read_incoming(messages, shape) if messages else Incoming(messages=())
    return came.model_copy(
        update={
            "model": text_or_empty(answer.get("model")) or came.model,
            "reported": reported_tokens_of(answer) or came.reported,
        }
    )
