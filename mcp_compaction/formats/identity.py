"""When two messages are the same message."""

from __future__ import annotations

from pydantic import JsonValue

from mcp_compaction.formats.jsontext import canonical
from mcp_compaction.model import JsonObject


def normalize(obj: JsonObject) -> str:
    """The JSON that identity is judged by: sorted, unmarked, one text block as plain text."""
    return canonical(_normal(obj))


def _normal(value: JsonValue) -> JsonValue:
    match value:
        case dict():
            return {
                key: _plain(_normal(inner)) if key == "content" else _normal(inner)
                for key, inner in value.items()
                if key != "cache_control"
            }
        case list():
            return [_normal(inner) for inner in value]
        case _:
            return value


def _plain(content: JsonValue) -> JsonValue:
    if not isinstance(content, list) or len(content) != 1 or not isinstance(content[0], dict):
        return content
    block = content[0]
    is_plain = block.keys() == {"type", "text"} and block["type"] == "text"
    return block["text"] if is_plain else content
