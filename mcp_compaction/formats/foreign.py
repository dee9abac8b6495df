"""Tells the shape of a provider that a message has, and files of other programs, which have no
messages of the three shapes.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from pydantic import JsonValue

from mcp_compaction.errors import MalformedMessage
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


class FormatMark(NamedTuple):
    """Keys that stand together in one object of a format, and the values its type may have."""

    keys: frozenset[str]
    types: frozenset[str] = frozenset()

    def is_on(self, obj: JsonObject) -> bool:
        """Whether the object has these keys, and one of the types where types are named."""
        kind = obj.get("type")
        is_known = not self.types or (isinstance(kind, str) and kind in self.types)
        return is_known and self.keys <= obj.keys()


class Foreign(NamedTuple):
    """A format that is recognized and not read."""

    name: str
    marks: tuple[FormatMark, ...]
    next_step: str


def _mark(keys: str, types: str = "") -> FormatMark:
    return FormatMark(frozenset(keys.split()), frozenset(types.split()))


_AS_FILE = "To take its file in, run: mcp-compaction import FILE"
_AS_MESSAGES = "Send each message in it as an object with role and content."

# The first that fits counts: Gemini's log has keys of a Claude Code transcript too.
FOREIGN: Final[tuple[Foreign, ...]] = (
    Foreign(
        "an export of mcp-compaction",
        (_mark("session sections view receipts"),),
        _AS_FILE,
    ),
    Foreign(
        "a Codex rollout",
        (_mark("timestamp type payload"), _mark("record_type")),
        _AS_FILE,
    ),
    Foreign("an older Gemini chat file", (_mark("sessionId projectHash messages"),), _AS_MESSAGES),
    Foreign(
        "a Gemini chat file",
        (
            _mark("sessionId projectHash"),
            _mark("sessionId messageId message"),
            _mark("$set"),
            _mark("id timestamp type content", "user gemini info warning error"),
        ),
        _AS_FILE,
    ),
    Foreign(
        "a Claude Code transcript",
        (
            _mark("parentUuid"),
            _mark("type sessionId"),
            _mark("type uuid message"),
            _mark("type leafUuid"),
            _mark("type messageId snapshot"),
            _mark("type shapeHash"),
        ),
        _AS_FILE,
    ),
    Foreign("a claude.ai export", (_mark("chat_messages"), _mark("sender text")), _AS_MESSAGES),
    Foreign("a ChatGPT export", (_mark("mapping title"), _mark("author content")), _AS_MESSAGES),
    Foreign("an opencode export", (_mark("info parts"),), _AS_MESSAGES),
)


def refuse_foreign(value: JsonValue, where: str) -> None:
    """Refuse an object that only a file of another format holds, by the format's name."""
    foreign = _find_foreign(value)
    if foreign is not None:
        raise MalformedMessage(
            f"{where}: this is {foreign.name}, not a list of messages; nothing was recorded. "
            f"{foreign.next_step}"
        )


def name_foreign(value: JsonValue) -> str | None:
    """The name of the format whose files hold such an object; None for a message."""
    foreign = _find_foreign(value)
    return None if foreign is None else foreign.name


def _find_foreign(value: JsonValue) -> Foreign | None:
    # A message stays one, whatever keys a host has added to it.
    if not isinstance(value, dict) or "role" in value or is_item_type(value.get("type")):
        return None
    return next((f for f in FOREIGN if any(mark.is_on(value) for mark in f.marks)), None)
