"""Exports of mcp-compaction: a header with what was derived, then each message as it was kept."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from mcp_compaction.formats import read_incoming_text
from mcp_compaction.hosts.transcripts.pieces import (
    NOTHING,
    Chat,
    TranscriptLine,
    object_at,
    text_at,
)
from mcp_compaction.model import JsonObject, Sections

NAME: Final = "mcp-compaction"


def chat_of(lines: Iterator[JsonObject], path: Path) -> Chat:
    """The session of an export, which its header describes."""
    nothing: JsonObject = {}
    header = next(lines, nothing)
    try:
        sections = Sections.model_validate(object_at(header, "sections"))
    except ValidationError:
        sections = Sections()
    return Chat(name=text_at(object_at(header, "session"), "name"), sections=sections)


def read_line(obj: JsonObject, line: bytes, at: int, path: Path) -> TranscriptLine:
    """The message on a line, byte for byte; the header has none."""
    if "receipts" in obj and "role" not in obj:
        return NOTHING
    came = read_incoming_text(line.decode())
    ours = [message.model_copy(update={"host_id": f"@{at}"}) for message in came.messages]
    return TranscriptLine(tuple(ours), reported=came.reported, model=came.model)
