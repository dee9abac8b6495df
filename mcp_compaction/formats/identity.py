"""The identity of messages: when two are the same message."""

from __future__ import annotations

from hashlib import blake2b

from pydantic import JsonValue

from mcp_compaction.formats.jsontext import dump_canonical
from mcp_compaction.model import JsonObject, NewMessage


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
