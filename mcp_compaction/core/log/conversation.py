"""Tells the conversation from what stands beside it: what a host wrote, and our own tools.

A view shows messages as they are; whoever reads what was said reads them through here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
from typing import NamedTuple

from mcp_compaction.core.limits import LONGEST_TEXT
from mcp_compaction.core.reading import read_recent_once
from mcp_compaction.core.text.host_texts import (
    summary_in,
    without_host_text_behind,
    without_host_texts,
)
from mcp_compaction.core.text.patterns import pattern_of
from mcp_compaction.lexicon.host_texts import own_tools
from mcp_compaction.lexicon.tools import known_tools
from mcp_compaction.model import Message, Part, Text, ToolCall, ToolResult

_TOOL_IN_PROGRAM = pattern_of(r"\btools\.(\w+)")


class Conversation(tuple[Message, ...]):
    """Messages as people and tools said them; to read them so again changes nothing."""

    __slots__ = ()


def conversation_of(messages: Iterable[Message]) -> Conversation:
    """The messages as people and tools said them, without what a host put in and without the
    calls and results of our own tools; one of which nothing is left is left out."""
    return messages if isinstance(messages, Conversation) else _read_conversation(messages)


@read_recent_once
def _read_conversation(messages: Sequence[Message]) -> Conversation:
    return Conversation(_messages_said(messages))


def has_conversation(messages: Iterable[Message]) -> bool:
    """Whether anybody said anything in some messages."""
    return any(True for _ in _messages_said(messages))


def has_request(message: Message) -> bool:
    """Whether a user asked for something here, rather than a tool or a host spoke."""
    return message.is_request and has_conversation([message])


def host_summary_in(message: Message) -> str:
    """The summary that a host's own compaction left in a message; empty where there is none."""
    if message.role != "user":
        return message.text if message.speaker == "host" else ""
    texts = (part.text for part in message.parts if isinstance(part, Text))
    return next((found for text in texts if (found := summary_in(text.lstrip()))), "")


def is_own_call(call: ToolCall) -> bool:
    """Whether a call runs a tool of ours: by its name, or as a program that calls no other."""
    if is_own_tool(call.name):
        return True
    program = call.arguments.get("input")  # in Codex's code mode a model writes JavaScript
    if not isinstance(program, str) or "tools." not in program:
        return False
    called = _TOOL_IN_PROGRAM.findall(program)
    return bool(called) and all(map(is_own_tool, called))


@lru_cache(maxsize=1_024)
def is_own_tool(name: str) -> bool:
    """Whether a tool is one of ours, whatever a host puts before its name."""
    return bool(_own_names().search(name))


@cache
def _own_names() -> re.Pattern[str]:
    return re.compile(rf"(?:^|[^A-Za-z0-9])(?:{'|'.join(own_tools())})$")


def _messages_said(messages: Iterable[Message]) -> Iterator[Message]:
    own_calls: set[str] = set()
    for message in messages:
        if message.role == "system":
            continue
        kept = tuple(_parts_said(message, own_calls))
        if kept == message.parts:
            yield message
        elif kept:
            yield message.model_copy(update={"parts": kept})


def _parts_said(message: Message, own_calls: set[str]) -> Iterator[Part]:
    for part in message.parts:
        match part:
            case ToolCall(id=call):
                if is_own_call(part):
                    own_calls.add(call)
                else:
                    own_calls.discard(call)  # some providers number the calls of a turn anew
                    yield part
            case ToolResult(call=call):
                if call not in own_calls:
                    yield from _result_said(part, message.speaker == "user")
            case Text() if message.role == "user" or message.speaker == "host":
                if message.speaker != "host" and (said := _text_said(part)):
                    yield said
            case _:
                yield part


def _result_said(part: ToolResult, holds_words: bool) -> Iterator[Part]:
    """A result, and behind it the words of the user that it holds, which are its own no longer."""
    text = without_host_text_behind(part.text)
    words = users_words_in(text) if holds_words else ()
    for one in reversed(words):
        text = f"{text[: one.start]}…{text[one.end :]}"  # they stand behind it
    yield part if text == part.text else part.model_copy(update={"text": text})
    yield from (Text(text=one.words) for one in words if one.words)


def _text_said(part: Text) -> Text | None:
    text = without_host_texts(part.text)
    if text == part.text:
        return part
    return Text(text=text) if text.strip() else None


class WordsInResult(NamedTuple):
    """What a user said in a result, and where it stands."""

    words: str
    start: int
    end: int


def users_words_in(result: str) -> tuple[WordsInResult, ...]:
    """The words of the user in a result, by the shapes in which hosts hand them over."""
    opening = result[:LONGEST_TEXT]
    for begins, pattern in _shapes():
        if begins.match(opening):
            said = pattern.finditer(opening)
            return tuple(WordsInResult(one["words"].strip(), *one.span("words")) for one in said)
    return ()


@cache
def _shapes() -> tuple[tuple[re.Pattern[str], re.Pattern[str]], ...]:
    return tuple(
        (re.compile(one.begins), re.compile(one.each, re.S)) for one in known_tools().answer
    )
