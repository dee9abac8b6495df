"""The identity of messages: when two are the same message."""

from __future__ import annotations

from hashlib import blake2b

from pydantic import JsonValue

from mcp_compaction.formats.jsontext import dump_canonical, parse_object
from mcp_compaction.model import JsonObject, NewMessage, Shape

_EMPTY_WHERE_UNSET = ("annotations", "logprobs", "tool_calls")
_GIVEN_TO_TOOLS = ("input", "arguments")  # null means something to a tool


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


def normal_of_essence(raw: str, shape: Shape) -> str:
    """The normal JSON of an answer without the keys that one SDK writes and another leaves out."""
    beside = ("id", "status") if shape == "responses" else ()
    said = _set_keys(parse_object(raw, "the answer"))
    return normalize({key: _drop_unset(value) for key, value in said if key not in beside})


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
