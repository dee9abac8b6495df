"""Rollouts of Codex: items of the Responses API as they were sent, between events of the host."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pydantic import JsonValue

from mcp_compaction.compactor.results import HOST_COMPACTED
from mcp_compaction.formats import IncomingMessage
from mcp_compaction.formats.arrival import parse_moment
from mcp_compaction.formats.content import objects_in
from mcp_compaction.hosts.transcripts.pieces import (
    NOTHING,
    Chat,
    Compacted,
    TranscriptLine,
    count_at,
    message_of,
    object_at,
    text_at,
)
from mcp_compaction.model import Event, JsonObject, Speaker

NAME: Final = "codex"
_BY_PERSONS = ("cli", None)  # the sources of chats in which a person types
# Any client of Codex' server has the source `vscode`; its maker's are called so.
_CLIENTS = ("codex_vscode", "codex_atlas", "codex_chatgpt_desktop", "Codex ")
_EXEC = "codex_exec"


def chat_of(lines: Iterator[JsonObject], path: Path) -> Chat:
    """The chat of a rollout, which its first line describes; a subagent has one of its own."""
    for line in lines:
        if line.get("type") == "session_meta":
            meta = object_at(line, "payload")
            source, client = meta.get("source"), text_at(meta, "originator") or ""
            is_served = source == "vscode" and client.startswith(_CLIENTS)
            is_known = is_served or (source in _BY_PERSONS and client != _EXEC)
            return Chat(
                session=text_at(meta, "id"),
                parent=_parent_in(meta),
                folder=text_at(meta, "cwd"),
                is_headless=not is_known,
            )
    return Chat()


def _parent_in(meta: JsonObject) -> str | None:
    """The thread that started this one: `source` names it at some depth."""
    level: list[JsonValue] = [meta.get("parent_thread_id"), meta.get("source")]
    found = text_at(meta, "parent_thread_id")
    while level and found is None:
        objects = [value for value in level if isinstance(value, dict)]
        found = next((text_at(obj, "parent_thread_id") for obj in objects), None)
        level = [inner for obj in objects for inner in obj.values()]
    return found


def read_line(obj: JsonObject, line: bytes, at: int, path: Path) -> TranscriptLine:
    """What a line tells: an item, the model in use, the tokens of the window, a compaction."""
    payload = object_at(obj, "payload")
    match obj.get("type"):
        case "response_item":
            return TranscriptLine(_read_item(obj, payload, f"@{at}"))
        case "turn_context":
            return TranscriptLine(model=text_at(payload, "model"))
        case "event_msg" if payload.get("type") == "token_count":
            info = object_at(payload, "info")
            used = count_at(object_at(info, "last_token_usage"), "total_tokens")
            window = count_at(info, "model_context_window")
            return TranscriptLine(reported=used or None, window_tokens=window or None)
        case "compacted":
            return _read_compaction(obj, payload, f"@{at}")
        case _:
            return NOTHING


def _read_item(obj: JsonObject, item: JsonObject, place: str) -> tuple[IncomingMessage, ...]:
    # Its summary comes again, in the user's role, with the compaction.
    is_summary = object_at(obj, "metadata").get("compaction_output") is True
    if is_summary or item.get("role") in ("developer", "system"):
        return ()
    host_id = text_at(item, "id") or place
    return message_of(item, "responses", host_id, obj.get("timestamp"), speaker=_speaker_of(item))


def _speaker_of(item: JsonObject) -> Speaker:
    """`host` where the host says that it wrote itself what stands in the user's role."""
    if item.get("role") != "user":
        return ""
    told = object_at(item, "internal_chat_message_metadata_passthrough")
    origins = [
        object_at(part, "provenance").get("type")
        for part in objects_in(told.get("content_item_metadata"))
    ]
    return "host" if any(origin not in (None, "user") for origin in origins) else ""


def _read_compaction(obj: JsonObject, payload: JsonObject, place: str) -> TranscriptLine:
    moment = parse_moment(obj.get("timestamp"))
    events = () if moment is None else (Event(name=HOST_COMPACTED, at=moment, detail="history"),)
    history = objects_in(payload.get("replacement_history"))
    summary = [item for item in history if _text_of(item) == text_at(payload, "message")]
    said = [
        message
        for item in summary[-1:]
        for message in message_of(
            item, "responses", text_at(item, "id") or place, obj.get("timestamp"), speaker="host"
        )
    ]
    stays = [_text_of(item) or "" for item in history if item not in summary[-1:]]
    told = text_at(payload, "message") or ""
    compacted = Compacted(kept_text="\n".join(stays))
    return TranscriptLine(tuple(said), events=events, compacted=compacted, summary=told)


def _text_of(item: JsonObject) -> str | None:
    parts = objects_in(item.get("content"))
    return "".join(text_at(part, "text") or "" for part in parts) or None
