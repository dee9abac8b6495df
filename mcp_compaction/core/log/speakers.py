"""Says whose words a message holds: what a tool gave out is the tool's, in whatever role."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby

from mcp_compaction.core.log.content import text_of
from mcp_compaction.core.text.patterns import pattern_of
from mcp_compaction.model import Message, Part, ToolCall, ToolResult

_HOW = {"host": "", "tool": ", as the agent told it", "program": ", headless"}
_OTHERS = {"host": "host", "agent": "another agent"}
_PLAIN_NAME = pattern_of(r"[\w.:/-]{1,128}")  # no other one can pose as a label


def speaker_of(message: Message) -> str:
    """Who says the words of a message that was heard, and how they came: `user, headless`."""
    if message.role != "user":
        return message.role
    return _OTHERS.get(message.speaker) or f"user{_HOW[message.via]}"


def texts_by_speaker(message: Message, calls: Mapping[str, ToolCall]) -> list[tuple[str, str]]:
    """The texts of a message in order, each behind whose it is: `user`, `tool Bash`."""
    said = [(_speaker_of_part(part, message, calls), text_of(part)) for part in message.parts]
    said = [one for one in said if one[1].strip()] or said[:1] or [(speaker_of(message), "")]
    runs = groupby(said, key=lambda one: one[0])
    return [(who, "\n".join(text for _, text in run)) for who, run in runs]


def _speaker_of_part(part: Part, message: Message, calls: Mapping[str, ToolCall]) -> str:
    if not isinstance(part, ToolResult):
        return speaker_of(message)
    call = calls.get(part.call)
    name = f" {call.name}" if call is not None and _PLAIN_NAME.fullmatch(call.name) else ""
    # A host tells so of an answer to the agent's question, and of the reason for a refusal.
    return f"tool{name}{', with words of the user' if message.speaker == 'user' else ''}"
