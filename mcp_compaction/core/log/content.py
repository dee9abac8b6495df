"""Gives the words of a message as counters, searches and digests read them, and whose they are."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import assert_never

from mcp_compaction.core.text.host_texts import without_host_texts
from mcp_compaction.core.text.patterns import pattern_of
from mcp_compaction.core.tokens import CountTokens
from mcp_compaction.model import (
    Cut,
    JsonObject,
    Media,
    Message,
    Opaque,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)

_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_ESCAPED = pattern_of(r"\\(.)")
_SIGNS = {"n": "\n", "r": "\n", "t": "\t"}

_HOW = {"host": "", "tool": ", as the agent told it", "program": ", headless"}
_OTHERS = {"host": "host", "agent": "another agent"}
_PLAIN_NAME = pattern_of(r"[\w.:/-]{1,128}")  # no other one can pose as a label
_SPEAKER = pattern_of(r"[A-Z][\w.'-]*(?: [A-Z][\w.'-]*){0,2}: \S")
_NAMED = 0.9  # of the answers
_TALK = 0.2  # where users say more of it than this, a session is talk and not work
MEDIA_TOKENS = 1_600  # what providers charge for one image of ordinary size


def compact_json(value: object) -> str:
    """One line of JSON, as a model would read it."""
    return _ENCODER.encode(value)


def text_of(part: Part) -> str:
    """The words of one part."""
    match part:
        case Text() | Thinking() | ToolResult() | Opaque():
            return part.text
        case ToolCall():
            return f"{part.name} {compact_json(part.arguments)}"
        case Media():
            return ""
        case _:
            assert_never(part)


def whole_text(message: Message) -> str:
    """All that a message says, its parts one below the other."""
    return "\n".join(text_of(part) for part in message.parts)


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
        words = part.text if message.role == "user" and isinstance(part, Text) else ""
        is_hosts = words and not without_host_texts(words).strip()
        return "host" if is_hosts else speaker_of(message)
    call = calls.get(part.call)
    name = f" {call.name}" if call is not None and _PLAIN_NAME.fullmatch(call.name) else ""
    # A host tells so of an answer to the agent's question, and of the reason for a refusal.
    return f"tool{name}{', with words of the user' if message.speaker == 'user' else ''}"


def words_of(part: Part) -> str:
    """The words of one part as a search looks for them: a call's arguments without escapes."""
    if isinstance(part, ToolCall):
        return _ESCAPED.sub(lambda match: _SIGNS.get(match[1], match[1]), text_of(part))
    return text_of(part)


def part_tokens(part: Part, count: CountTokens) -> int:
    """The tokens of one part."""
    media = isinstance(part, Media) or (isinstance(part, ToolResult) and part.has_media)
    return count(text_of(part)) + (MEDIA_TOKENS if media else 0)


def tokens_of(parts: Iterable[Part], count: CountTokens) -> int:
    """The tokens of some parts together."""
    return sum(part_tokens(part, count) for part in parts)


def shown_parts(message: Message, cuts: Iterable[Cut]) -> tuple[Part, ...]:
    """The parts of a message with its cuts applied."""
    shorter = {cut.part: cut.shown for cut in cuts}
    return tuple(shorter.get(number, part) for number, part in enumerate(message.parts))


def calls_by_id(messages: Iterable[Message]) -> dict[str, ToolCall]:
    """The calls of one step, by id."""
    return {call.id: call for message in messages for call in message.calls}


def string_arguments(arguments: JsonObject) -> Iterable[tuple[str, str]]:
    """The arguments that are plain strings, by name."""
    return ((name, value) for name, value in arguments.items() if isinstance(value, str))


def is_talk(messages: Sequence[Message]) -> bool:
    """Whether people only talk here: no tool is called, and a user says a good part of it."""
    if any(message.calls for message in messages):
        return False
    said = sum(message.tokens for message in messages if message.is_request)
    return said > _TALK * sum(message.tokens for message in messages)


def is_of_others(messages: Sequence[Message]) -> bool:
    """Whether messages are the talk of people who are named: those of the assistant, too, begin
    with the name of a speaker. Nobody there gives an agent rules or tasks."""
    answers = [m.text for m in messages if m.role == "assistant"]
    named = sum(_SPEAKER.match(text) is not None for text in answers)
    return bool(answers) and named >= _NAMED * len(answers)
