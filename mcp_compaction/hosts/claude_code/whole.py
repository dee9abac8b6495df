"""A chat as it was said, from before the compactions that the host itself made."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime

from mcp_compaction.formats import FORMATS
from mcp_compaction.formats.identity import words_in
from mcp_compaction.hosts.claude_code.rows import Row, is_said
from mcp_compaction.hosts.transcripts.files import FileTranscript
from mcp_compaction.hosts.transcripts.pieces import TranscriptLine
from mcp_compaction.model import Message


def was_compacted_by_host(transcript: FileTranscript) -> bool:
    """Whether the host has put a summary of its own in the place of what was said."""
    return any(line.summary for line in _lines_of(transcript))


def list_whole_chat(transcript: FileTranscript, current: Sequence[Row]) -> list[Row]:
    """All rows of a chat but the host's summaries, each once: what a compaction kept is written
    down again. Those that it has now are the same objects, where they were first said."""
    now = {row.uuid: row for row in current}
    rows: dict[str, Row] = {}
    said: dict[tuple[str, ...], list[str]] = {}  # with the rows that it has no more, by their ids
    left: set[str] = set()
    compacted: datetime | None = None
    for line in _lines_of(transcript):
        compacted = max((event.at for event in line.events), default=compacted)
        for message in line.messages:
            uuid = message.host_id or ""
            row = now.get(uuid) or Row(uuid, json.loads(message.raw), has_no_handle=True)
            key = _key_of(row)
            is_old = compacted is not None and message.at is not None and message.at < compacted
            if line.summary or row.is_copy or (is_old and key in said) or not is_said(row.message):
                left.add(uuid)
            elif uuid not in rows:
                rows[uuid] = row
                said.setdefault(key, []).extend([] if uuid in now else [uuid])
    for row in current:
        if not row.is_copy and row.uuid not in left:  # not written down yet
            rows.setdefault(row.uuid, row)
    for row in reversed(current):  # of several equal ones the last were kept
        places = said.get(_key_of(row), [])
        if row.is_copy and places:
            first = rows[places.pop()]
            if first.message.get("content") == row.message.get("content"):  # else it was cut
                rows[first.uuid] = row
    return list(rows.values())


def _key_of(row: Row) -> tuple[str, ...]:
    """What a row is known by when it is written down again: the calls that it answers, or its
    words."""
    role, parts = FORMATS["anthropic"].read(row.message, "the row")
    calls = tuple(part.call for part in parts if part.kind == "result")
    raw = json.dumps(row.message)
    message = Message(seq=0, role=role, parts=parts, shape="anthropic", raw=raw)
    return calls or words_in(message) or (row.uuid,)


def _lines_of(transcript: FileTranscript) -> list[TranscriptLine]:
    return [line for line in transcript.lines() if not line.agent]
