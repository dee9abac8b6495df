"""The detection of the provider's shape that a message has."""

from __future__ import annotations

from pydantic import JsonValue

from mcp_compaction.formats.content import objects_in, text_or_empty
from mcp_compaction.model import JsonObject, Shape

_OPENAI_ROLES = ("developer", "tool", "function")
_OPENAI_KEYS = (
    "tool_calls",
    "tool_call_id",
    "function_call",
    "refusal",
    "reasoning_content",
    "audio",
)
_RESPONSES_BLOCKS = ("input_text", "output_text", "input_image", "input_file")
_OPENAI_BLOCKS = ("image_url", "input_audio", "file", "refusal")
# Calls and their outputs are told by how their type ends: the API goes on adding tools.
_ITEM_ENDINGS = ("_call", "_call_output")
_ITEMS = (
    "additional_tools",
    "compaction",
    "compaction_summary",
    "item_reference",
    "mcp_approval_request",
    "mcp_approval_response",
    "mcp_list_tools",
    "message",
    "reasoning",
    "tool_search_output",
)
_ANTHROPIC_KEYS = ("stop_reason", "stop_sequence", "output_config")


def detect(obj: JsonObject) -> Shape:
    """The shape of a message; what would fit both APIs counts as anthropic, unless it is system."""
    return sure_shape(obj) or ("openai" if obj.get("role") == "system" else "anthropic")


def sure_shape(obj: JsonObject) -> Shape | None:
    """The shape of a message that fits only one of them."""
    kinds = {text_or_empty(block.get("type")) for block in objects_in(obj.get("content"))}
    kind = obj.get("type")
    if not kinds.isdisjoint(_RESPONSES_BLOCKS) or ("role" not in obj and isinstance(kind, str)):
        return "responses"
    if not obj.keys().isdisjoint(_ANTHROPIC_KEYS):
        return "anthropic"
    if not obj.keys().isdisjoint(_OPENAI_KEYS) or not kinds.isdisjoint(_OPENAI_BLOCKS):
        return "openai"
    if kinds - {"text"}:
        return "anthropic"
    if is_item_type(kind) and isinstance(obj.get("content"), str):
        return "responses"
    return "openai" if obj.get("role") in _OPENAI_ROLES else None


def is_item_type(kind: JsonValue) -> bool:
    """Whether items of the Responses API have this type."""
    return isinstance(kind, str) and (kind in _ITEMS or kind.endswith(_ITEM_ENDINGS))
