"""Chats of Gemini CLI: messages that later lines complete, and whole histories written again.

A message is therefore taken apart: its words, each call and each result have ids of their own, so
that what comes later is new and what comes again is not.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Final

from pydantic import JsonValue

from mcp_compaction.compactor.results import HOST_COMPACTED
from mcp_compaction.core.log.content import compact_json
from mcp_compaction.errors import MalformedMessage
from mcp_compaction.formats import IncomingMessage
from mcp_compaction.formats.arrival import parse_moment
from mcp_compaction.formats.content import objects_in
from mcp_compaction.hosts.transcripts.pieces import (
    NOTHING,
    Chat,
    TranscriptLine,
    count_at,
    message_of,
    object_at,
    text_at,
)
from mcp_compaction.model import Event, JsonObject, Speaker

NAME: Final = "gemini"
_SNAPSHOT = "<state_snapshot>"
_REFERENCED = "--- Content from referenced files ---"  # a part of its own; files named by @ follow
_WRITTEN = ":written"  # ends the id of what the host put beside the words of the user
_MOST_OF_A_PATH = 4_096


def chat_of(lines: Iterator[JsonObject], path: Path) -> Chat:
    """The chat of a file, which its first line names; its folder is noted beside the chats."""
    for line in lines:
        session = text_at(line, "sessionId")
        if session is not None:
            is_main = line.get("kind", "main") == "main"
            return Chat(session=session, is_agents=not is_main, folder=_folder_beside(path))
    return Chat()


def _folder_beside(path: Path) -> str | None:
    note = path.parent.parent / ".project_root"
    try:
        if note.is_symlink() or not note.is_file() or note.stat().st_size > _MOST_OF_A_PATH:
            return None
        return note.read_text(encoding="utf-8").strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def read_line(obj: JsonObject, line: bytes, at: int, path: Path) -> TranscriptLine:
    """What a line tells: a message, or all messages anew."""
    written = _leave_out_copies(object_at(obj, "$set").get("messages")) if "$set" in obj else [obj]
    lines = [_try_message(message) for message in written]
    if not lines:
        return NOTHING
    newest = lines[-1]
    return TranscriptLine(
        tuple(chain.from_iterable(one.messages for one in lines)),
        events=tuple(chain.from_iterable(one.events for one in lines)),
        reported=newest.reported,
        model=newest.model,
        skipped=sum(one.skipped for one in lines),
    )


def _leave_out_copies(messages: JsonValue) -> list[JsonObject]:
    """A history up to the summary in it: what follows has been written before, by other ids."""
    written = objects_in(messages)
    summaries = [number for number, obj in enumerate(written) if _is_snapshot(obj)]
    return written[: summaries[-1] + 1] if summaries else written


def _is_snapshot(obj: JsonObject) -> bool:
    texts = [text_at(part, "text") or "" for part in _parts_of(obj.get("content"))]
    return obj.get("type") == "user" and "".join(texts).startswith(_SNAPSHOT)


def _try_message(obj: JsonObject) -> TranscriptLine:
    try:
        return _read_message(obj)
    except MalformedMessage:
        return TranscriptLine(skipped=1)


def _read_message(obj: JsonObject) -> TranscriptLine:
    match obj.get("type"), text_at(obj, "id"):
        case "user", str(host_id):
            return _read_user(obj, host_id)
        case "gemini", str(host_id):
            used = count_at(object_at(obj, "tokens"), "total")
            said = _read_answer(obj, host_id)
            return TranscriptLine(said, reported=used or None, model=text_at(obj, "model"))
        case _:
            return NOTHING


def _read_user(obj: JsonObject, host_id: str) -> TranscriptLine:
    parts = _parts_of(obj.get("content"))
    texts = _texts_in(parts)
    when = obj.get("timestamp")
    moment = parse_moment(when)
    if _is_snapshot(obj) and moment is not None:
        event = Event(name=HOST_COMPACTED, at=moment, detail="history")
        return TranscriptLine(_request_of(texts, host_id, when, "host"), events=(event,))
    typed = _texts_typed_by_user(texts, _texts_in(_parts_of(obj.get("displayContent"))))
    written = texts[len(typed) :] if texts[: len(typed)] == typed else texts
    said = _request_of(typed, host_id, when)
    beside = _request_of(written, f"{host_id}{_WRITTEN}", when, "host")
    return TranscriptLine((*said, *beside, *_read_results(parts, when)))


def _texts_in(parts: list[JsonObject]) -> list[str]:
    return [text for part in parts if (text := text_at(part, "text")) is not None]


def _texts_typed_by_user(texts: list[str], shown: list[str]) -> list[str]:
    """The texts that the user typed. Gemini CLI shows them where it sent others in their place, as
    for a command; else they are the texts before those of the files that the user named by @."""
    if shown:
        return shown
    starts = [number for number, text in enumerate(texts) if text.strip() == _REFERENCED]
    return texts[: starts[0]] if starts else texts


def _request_of(
    texts: list[str], host_id: str, when: JsonValue, speaker: Speaker = ""
) -> tuple[IncomingMessage, ...]:
    content: list[JsonValue] = [{"type": "text", "text": text} for text in texts]
    return message_of(
        {"role": "user", "content": content}, "anthropic", host_id, when, speaker=speaker
    )


def _read_answer(obj: JsonObject, host_id: str) -> tuple[IncomingMessage, ...]:
    when = obj.get("timestamp")
    texts = [text_at(part, "text") or "" for part in _parts_of(obj.get("content"))]
    words: JsonObject = {"role": "assistant", "content": "".join(texts)}
    said = list(message_of(words, "anthropic", host_id, when))
    calls = [call for call in objects_in(obj.get("toolCalls")) if text_at(call, "id")]
    for call in calls:
        block: JsonObject = {
            "type": "tool_use",
            "id": call["id"],
            "name": call.get("name"),
            "input": call.get("args") or {},
        }
        message: JsonObject = {"role": "assistant", "content": [block]}
        said += message_of(message, "anthropic", f"{call['id']}:call", when)
    for call in calls:
        said += _read_results(_parts_of(call.get("result")), call.get("timestamp"))
    return tuple(said)


def _read_results(parts: list[JsonObject], when: JsonValue) -> list[IncomingMessage]:
    said: list[IncomingMessage] = []
    for part in parts:
        result = object_at(part, "functionResponse")
        call = text_at(result, "id")
        if call is None:
            continue
        given = object_at(result, "response")
        text = text_at(given, "output") or text_at(given, "error") or compact_json(given)
        block: JsonObject = {"type": "tool_result", "tool_use_id": call, "content": text}
        if "error" in given:
            block["is_error"] = True
        message: JsonObject = {"role": "user", "content": [block]}
        said += message_of(message, "anthropic", f"{call}:result", when)
    return said


def _parts_of(content: JsonValue) -> list[JsonObject]:
    """The parts of a content, which may be a text, a part or a list of parts."""
    if isinstance(content, str):
        return [{"text": content}]
    return [content] if isinstance(content, dict) else objects_in(content)
