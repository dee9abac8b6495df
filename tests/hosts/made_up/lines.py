"""Transcripts of the made-up host: one message a line, as Anthropic's API has it, with an id."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from mcp_compaction.hosts.transcripts.pieces import (
    Chat,
    TranscriptLine,
    message_of,
    object_at,
    text_at,
)
from mcp_compaction.model import JsonObject

NAME: Final = "testhost"


def chat_of(lines: Iterator[JsonObject], path: Path) -> Chat:
    """The chat of a file, which its first line tells."""
    first = next(lines, JsonObject())
    return Chat(session=path.stem, folder=text_at(first, "folder"))


def read_line(obj: JsonObject, line: bytes, at: int, path: Path) -> TranscriptLine:
    """The message on a line."""
    host_id = text_at(obj, "id") or f"@{at}"
    return TranscriptLine(message_of(object_at(obj, "message"), "anthropic", host_id))
