"""Provider message shapes and the model: reading, identity, showing, checking."""

from __future__ import annotations

from collections.abc import Sequence

from mcp_compaction.formats.arrival import Incoming, IncomingMessage, incoming, incoming_text
from mcp_compaction.formats.detection import detect
from mcp_compaction.formats.identity import normalize
from mcp_compaction.formats.jsontext import compact, parse_object
from mcp_compaction.formats.show import render
from mcp_compaction.formats.table import FORMATS, Format
from mcp_compaction.model import (
    JsonObject,
    Media,
    Message,
    Part,
    Role,
    Shape,
    ToolCall,
    ToolResult,
)

__all__ = [
    "FORMATS",
    "Format",
    "Incoming",
    "IncomingMessage",
    "detect",
    "incoming",
    "incoming_text",
    "media_tokens",
    "normalize",
    "read",
    "render",
    "text_of",
    "validate",
]

_MEDIA_TOKENS = 1600


def read(shape: Shape, raw: str) -> tuple[Role, tuple[Part, ...]]:
    """The role and parts of one original JSON message."""
    where = "the message"
    return FORMATS[shape].read(parse_object(raw, where), where)


def validate(messages: Sequence[JsonObject], shape: Shape) -> tuple[str, ...]:
    """What the provider would refuse about these messages, in words."""
    return FORMATS[shape].validate(messages)


def text_of(part: Part) -> str:
    """What a counter and a search index read of a part."""
    match part:
        case ToolCall():
            return f"{part.name} {compact(part.arguments)}"
        case Media():
            return ""
        case _:
            return part.text


def media_tokens(message: Message) -> int:
    """About what the media of a message cost beside its texts."""
    count = sum(
        isinstance(p, Media) or (isinstance(p, ToolResult) and p.has_media) for p in message.parts
    )
    return _MEDIA_TOKENS * count
