"""The identity of messages: when two are the same message."""

from __future__ import annotations

from pydantic import JsonValue

from mcp_compaction.formats.jsontext import dump_canonical
from mcp_compaction.model import JsonObject


def normalize(obj: JsonObject) -> str:
    """The JSON that identity is judged by: sorted, unmarked, one text block as plain text."""
    return dump_canonical(_simplify(obj))


def _simplify(value: JsonValue) -> JsonValue:
    match value:
        case dict():
            return {
                key: _unwrap_text(_simplify(inner)) if key == "content" else _simplify(inner)
                for key, inner in value.items()
                if key != "cache_control"
            }
        case list():
            return [_simplify(inner) for inner in value]
        case _:
            return value


def _unwrap_text(content: JsonValue) -> JsonValue:
    if not isinstance(content, list) or len(content) != 1 or not isinstance(content[0], dict):
        return content
    block = content[0]
    is_plain = block.keys() == {"type", "text"} and block["type"] == "text"
    return block["text"] if is_plain else content
