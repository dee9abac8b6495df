"""Transcripts of Claude Code: one JSON object a line, messages in a tree by their uuids.

Nothing leaves the file when Claude Code compacts: a boundary is written, the summary follows.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import Final

from mcp_compaction.compactor import HOST_COMPACTED
from mcp_compaction.errors import InputError
from mcp_compaction.formats import IncomingMessage
from mcp_compaction.formats.arrival import parse_moment, reported_tokens_of
from mcp_compaction.hosts.transcripts.files import open_regular
from mcp_compaction.hosts.transcripts.pieces import (
    NOTHING,
    Chat,
    Line,
    count_at,
    message_of,
    object_at,
    text_at,
)
from mcp_compaction.model import Event, JsonObject, JsonValue, Via

NAME: Final = "claude-code"
_NO_MODEL = "<synthetic>"  # the host's own words, as for an error of the service
_CUT_RESULT = "<persisted-output>"  # begins what stands for a result that was put into a file
SUBAGENTS = "subagents"  # the folder of their transcripts
_FOLDER_OF_RESULTS = "tool-results"
_LARGEST_RESULT = 2**21  # bytes
_SIDECHAIN = "sidechain"  # older versions do not say which subagent it was


def chat_of(lines: Iterator[JsonObject], path: Path) -> Chat:
    """The chat of a file, whose name is the session; a subagent's is in the session it serves."""
    for line in lines:
        if line.get("type") not in ("user", "assistant"):
            continue
        agent, folder = _agent_of(line), text_at(line, "cwd")
        if not agent:
            # A chat that goes on with another one may begin with lines of that one.
            return Chat(session=path.stem, folder=folder)
        parent = _parent_file_of(path, text_at(line, "sessionId"))
        return Chat(session=parent.stem, agent=agent, parent_file=parent, folder=folder)
    return Chat(session=path.stem)


def _parent_file_of(path: Path, session: str | None) -> Path:
    folder = path.parent
    if folder.name == SUBAGENTS:
        return folder.parent.with_name(f"{folder.parent.name}.jsonl")
    return folder / f"{session}.jsonl"


def read_line(obj: JsonObject, line: bytes, at: int, path: Path) -> Line:
    """What a line tells: a message, a prompt that waited, or a compaction."""
    host_id = text_at(obj, "uuid") or f"@{at}"
    when, agent = obj.get("timestamp"), _agent_of(obj)
    match obj.get("type"):
        case "user":
            message = _with_whole_result(object_at(obj, "message"), obj.get("toolUseResult"), path)
            said = message_of(message, "anthropic", host_id, when, _via_of(obj))
            return Line(said, agent)
        case "assistant":
            return _read_answer(obj, host_id, agent)
        case "attachment":
            return Line(_read_queued(obj, host_id), agent)
        case "system" if obj.get("subtype") == "compact_boundary":
            return _read_boundary(obj, agent)
        case _:
            return NOTHING


def _agent_of(obj: JsonObject) -> str:
    """The subagent that a line is about; the main agent has no name."""
    return (text_at(obj, "agentId") or _SIDECHAIN) if obj.get("isSidechain") is True else ""


def _via_of(obj: JsonObject) -> Via | None:
    """`tool` where the host or an agent wrote what stands in the user's role."""
    is_written = any(obj.get(key) is True for key in ("isMeta", "isCompactSummary", "isSidechain"))
    return "tool" if is_written or obj.get("promptSource") == "system" else None


def _with_whole_result(message: JsonObject, told: JsonValue, path: Path) -> JsonObject:
    """The message with its result as the tool gave it, of which the host shows only a beginning."""
    match message.get("content"):
        case [{"type": "tool_result", "content": str() as shown, **rest}] if shown.startswith(
            _CUT_RESULT
        ):
            whole = _whole_result(told, path)
            block: JsonObject = {"type": "tool_result", **rest, "content": whole}
            return {**message, "content": [block]} if whole else message
        case _:
            return message


def _whole_result(told: JsonValue, path: Path) -> str:
    """A result as the line tells it, or as the file that the host has put it into; else nothing."""
    match told:
        case {"persistedOutputPath": str() as named}:
            return _read_result(path, PurePath(named).name)
        case list() as blocks:
            texts = [text_at(block, "text") for block in blocks if isinstance(block, dict)]
            return "\n".join(filter(None, texts)) if len(texts) == len(blocks) else ""
        case _:
            return ""


def _read_result(path: Path, name: str) -> str:
    """What a file in the session's own folder holds, by its name; nothing where it leads away."""
    is_agents = path.parent.name == SUBAGENTS
    session = path.parent.parent if is_agents else path.with_suffix("")
    found = session / _FOLDER_OF_RESULTS / name
    try:
        if Path(os.path.realpath(found)) != found:
            return ""
        with open_regular(found) as file:
            data = file.read(_LARGEST_RESULT + 1)
    except (InputError, ValueError):
        return ""
    return data.decode(errors="replace") if len(data) <= _LARGEST_RESULT else ""


def _read_answer(obj: JsonObject, host_id: str, agent: str) -> Line:
    message = object_at(obj, "message")
    said = message_of(message, "anthropic", host_id, obj.get("timestamp"))
    model = text_at(message, "model")
    if model == _NO_MODEL:
        return Line(said, agent)
    return Line(said, agent, reported=reported_tokens_of(message), model=model)


def _read_queued(obj: JsonObject, host_id: str) -> tuple[IncomingMessage, ...]:
    """The prompt that a user typed while the agent was at work."""
    attachment = object_at(obj, "attachment")
    if attachment.get("type") != "queued_command":
        return ()
    is_typed = attachment.get("commandMode", "prompt") == "prompt" and _via_of(obj) is None
    message: JsonObject = {"role": "user", "content": attachment.get("prompt")}
    return message_of(
        message, "anthropic", host_id, obj.get("timestamp"), None if is_typed else "tool"
    )


def _read_boundary(obj: JsonObject, agent: str) -> Line:
    told = object_at(obj, "compactMetadata")
    before, after = count_at(told, "preTokens"), count_at(told, "postTokens")
    moment = parse_moment(obj.get("timestamp"))
    if moment is None:
        return NOTHING
    detail = f"{text_at(told, 'trigger') or 'unknown'}, {before} -> {after} tokens"
    event = Event(name=HOST_COMPACTED, at=moment, detail=detail)
    return Line(agent=agent, events=(event,), reported=after or None)
