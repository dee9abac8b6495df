"""A chat as it was said, from before the compactions that the host itself made."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import cast

from mcp_compaction.hosts.claude_code.rows import Row
from mcp_compaction.hosts.transcripts.files import FileTranscript
from mcp_compaction.hosts.transcripts.pieces import TranscriptLine
from mcp_compaction.model import JsonObject


def was_compacted_by_host(transcript: FileTranscript) -> bool:
    """Whether the host has put a summary of its own in the place of what was said."""
    return any(line.summary for line in _lines_of(transcript))


def list_whole_chat(transcript: FileTranscript, current: Sequence[Row]) -> list[Row]:
    """All rows of a chat but the host's summaries; those that it has now are the same objects."""
    now = {row.uuid: row for row in current}
    rows: dict[str, Row] = {}
    summaries: set[str] = set()
    for line in _lines_of(transcript):
        ids = [message.host_id or "" for message in line.messages]
        summaries.update(ids if line.summary else ())
        for one, message in zip(ids, line.messages, strict=True):
            if not line.summary and one not in rows:
                told = cast("JsonObject", json.loads(message.raw))
                rows[one] = now.get(one) or Row(one, told)
    for row in current:  # what is not written down yet
        if row.uuid not in summaries:
            rows.setdefault(row.uuid, row)
    return list(rows.values())


def _lines_of(transcript: FileTranscript) -> list[TranscriptLine]:
    return [line for line in transcript.lines() if not line.agent]
