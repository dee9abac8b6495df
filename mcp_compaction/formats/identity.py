"""The identity of messages: when two are the same message, and the fingerprints by which histories
are compared.
"""

from __future__ import annotations

import json
import marshal
import re
from collections.abc import Callable, Sequence
from hashlib import blake2b

from pydantic import JsonValue

from mcp_compaction.core.text.host_texts import (
    is_only_host_text,
    text_to_compare,
    without_host_text_behind,
)
from mcp_compaction.errors import MalformedMessage
from mcp_compaction.formats.content import dump_canonical, parse_object
from mcp_compaction.model import (
    JsonObject,
    Message,
    NewMessage,
    Part,
    Shape,
    Text,
    ToolCall,
    ToolResult,
)

_EMPTY_WHERE_UNSET = ("annotations", "logprobs", "tool_calls")
_TIME_OF_DAY = re.compile(
    r"(?<![\d:.])(?:[01]?\d|2[0-4]):[0-5]\d(?::[0-5]\d(?:[.,]\d{1,9})?)?(?:\s?[AaPp][Mm]\b)?(?![\d:])"
)
_GIVEN_TO_TOOLS = ("input", "arguments")  # null means something to a tool

_MARK = b"cache_control"
_WITHOUT_REFERENCES = 2  # later versions write the same value in several ways


def content_hash(message: NewMessage) -> str:
    """The hash of what a message's identity is judged by."""
    return hash_of(message.shape, message.role, message.normal)


def hash_of(*texts: str) -> str:
    """One hash of several texts, that no other texts have."""
    digest = blake2b(digest_size=16)
    for text in texts:
        data = text.encode("utf-8", "surrogatepass")
        digest.update(b"%d:" % len(data))
        digest.update(data)
    return "b2:" + digest.hexdigest()


def normalize(obj: JsonObject) -> str:
    """The JSON that identity is judged by: sorted, unmarked, one text block as plain text."""
    return dump_canonical(_simplify(obj))


def normalize_answer(raw: str, shape: Shape) -> str:
    """An answer as normal JSON, without the keys that one SDK writes and another leaves out."""
    beside = ("id", "status") if shape == "responses" else ()
    said = _set_keys(parse_object(raw, "the answer"))
    return normalize({key: _drop_unset(value) for key, value in said if key not in beside})


def words_hash(message: Message | NewMessage) -> str:
    """The hash of what a message says, in whichever provider's form and whatever stands beside
    it."""
    return hash_of(*words_in(message))


def words_in(message: Message | NewMessage) -> tuple[str, ...]:
    """What each part of a message says, without thinking and what a host put into it; none where
    it says no more than that."""
    role = "user" if message.role == "tool" else message.role
    if role == "system" or any(_is_sealed(part) for part in message.parts):
        whole = object_to_compare(parse_object(message.raw, "the message"))
        return (f"{role} {normalize(whole)}",)
    said = (_words_of(part, role) for part in message.parts)
    return tuple(f"{role} {dump_canonical([*one])}" for one in said if one)


def _is_sealed(part: Part) -> bool:
    """Whether a part holds more than its words."""
    return part.kind in ("media", "opaque") or (part.kind == "result" and part.has_media)


def _words_of(part: Part, role: str) -> tuple[JsonValue, ...]:
    match part:
        case Text():
            text = part.text if role == "assistant" else text_to_compare(part.text)
            return (text.strip(),) if text.strip() and not is_only_host_text(text) else ()
        case ToolCall():
            return part.id, part.name, part.arguments
        case ToolResult():
            return part.call, without_host_text_behind(part.text), part.is_error
        case _:
            return ()


def object_to_compare(obj: JsonObject) -> JsonObject:
    """A message without what a host put into it; the same object where it put nothing.

    A system message is a host's own: it counts without the time of day.
    """
    role = obj.get("role")
    if role == "assistant":
        return obj
    if role in ("system", "developer"):
        return {**obj, "content": _map_texts(obj.get("content"), without_clock)}
    is_result = role == "tool" or obj.get("type") == "function_call_output"
    strip = without_host_text_behind if is_result else text_to_compare
    kept = {k: _map_texts(obj[k], strip) for k in ("content", "output") if k in obj}
    return obj if all(obj[k] is value for k, value in kept.items()) else {**obj, **kept}


def without_clock(text: str) -> str:
    """A text in which every time of day is the same; dates and all other numbers stay."""
    return _TIME_OF_DAY.sub("0:00", text)


def _map_texts(content: JsonValue, strip: Callable[[str], str]) -> JsonValue:
    """A content with its texts stripped, and without blocks of nothing but changing host text."""
    if isinstance(content, str):
        stripped = strip(content)
        return content if stripped == content else stripped
    if not isinstance(content, list):
        return content
    blocks = [_map_block(block, strip) for block in content]
    if all(new is old for new, old in zip(blocks, content, strict=True)):
        return content
    return [block for block in blocks if not is_only_host_text(_text_of(block))] or blocks


def _map_block(block: JsonValue, strip: Callable[[str], str]) -> JsonValue:
    if not isinstance(block, dict):
        return block
    if block.get("type") == "tool_result":
        key, strip = "content", without_host_text_behind
    else:
        key = "text"
    if not isinstance(block.get(key), str | list):
        return block
    stripped = _map_texts(block[key], strip)
    return block if stripped is block[key] else {**block, key: stripped}


def _text_of(block: JsonValue) -> str:
    text = block.get("text") if isinstance(block, dict) else None
    return text if isinstance(text, str) else ""


def _drop_unset(value: JsonValue) -> JsonValue:
    match value:
        case dict():
            return {
                key: inner if key in _GIVEN_TO_TOOLS else _drop_unset(inner)
                for key, inner in _set_keys(value)
            }
        case list():
            return [_drop_unset(inner) for inner in value]
        case _:
            return value


def _set_keys(obj: JsonObject) -> list[tuple[str, JsonValue]]:
    return [
        (key, value)
        for key, value in obj.items()
        if value is not None and not (value == [] and key in _EMPTY_WHERE_UNSET)
    ]


def _simplify(value: JsonValue) -> JsonValue:
    match value:
        case dict():
            return {
                key: unwrap_text(_simplify(inner)) if key == "content" else _simplify(inner)
                for key, inner in value.items()
                if key != "cache_control"
            }
        case list():
            return [_simplify(inner) for inner in value]
        case _:
            return value


def unwrap_text(content: JsonValue) -> JsonValue:
    """A content of one plain text block as that text."""
    if not isinstance(content, list) or len(content) != 1 or not isinstance(content[0], dict):
        return content
    block = content[0]
    is_plain = block.keys() == {"type", "text"} and block["type"] == "text"
    return block["text"] if is_plain else content


def fingerprint_of(value: JsonValue) -> bytes:
    """The fingerprint of an object, whatever cache mark it bears.

    A mark moves from request to request, and makes a block of what was a plain text.
    """
    data = _dump(_unwrap(value))
    if _MARK in data:
        data = _dump(_unwrap(strip_marks(value)))
    return blake2b(data, digest_size=16).digest()


def bare_fingerprint_of(message: JsonObject) -> bytes:
    """The fingerprint of a message without what a host put into it."""
    return fingerprint_of(object_to_compare(message))


def bare_fingerprints_of(
    messages: Sequence[JsonObject], prints: Sequence[bytes]
) -> dict[bytes, bytes]:
    """The bare fingerprints of those messages that a host put something into, by their own."""
    pairs = zip(messages, prints, strict=True)
    compared = ((message, object_to_compare(message), one) for message, one in pairs)
    return {one: fingerprint_of(bare) for message, bare, one in compared if bare is not message}


def strip_marks(value: JsonValue) -> JsonValue:
    """The same value without cache marks."""
    match value:
        case dict():
            return {k: strip_marks(inner) for k, inner in value.items() if k != "cache_control"}
        case list():
            return [strip_marks(inner) for inner in value]
        case _:
            return value


def _unwrap(value: JsonValue) -> JsonValue:
    """A message whose content is one plain text block, with that text as its content."""
    content = value.get("content") if isinstance(value, dict) else None
    if isinstance(value, dict) and isinstance(content, list) and len(content) == 1:
        return {**value, "content": unwrap_text(content)}
    return value


def fingerprints_of(messages: Sequence[JsonObject]) -> list[bytes]:
    """The fingerprints of messages, in order."""
    return [fingerprint_of(message) for message in messages]


def _dump(value: JsonValue) -> bytes:
    try:
        # Several times as fast as JSON; what is read of a new message is its JSON all the same.
        return marshal.dumps(value, _WITHOUT_REFERENCES)
    except ValueError:  # a subclass of a plain type, or nothing that JSON knows
        return _dump_json(value)


def _dump_json(value: JsonValue) -> bytes:
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise MalformedMessage(
            f"a message holds what JSON cannot write ({error}); of an SDK's object send what its "
            "to_dict() gives."
        ) from None
    return text.encode("utf-8", "surrogatepass")
