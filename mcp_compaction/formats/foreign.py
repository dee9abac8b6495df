"""Files that hold conversations but no messages of the three shapes, and what to say of each."""

from __future__ import annotations

from typing import Final, NamedTuple

from pydantic import JsonValue

from mcp_compaction.errors import MalformedMessage
from mcp_compaction.formats.detection import is_item_type
from mcp_compaction.model import JsonObject


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
