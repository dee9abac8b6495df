"""Keeps what went through a gateway from being recorded again from the transcripts of its host."""

from __future__ import annotations

from collections.abc import Mapping

from mcp_compaction.compactor import Compactor
from mcp_compaction.hosts.finding import transcripts_of_chat
from mcp_compaction.hosts.recording import record_new
from mcp_compaction.model import SessionInfo
from mcp_compaction.threads import Threads


async def pass_over_chat(
    compactor: Compactor, info: SessionInfo, environ: Mapping[str, str]
) -> None:
    """Note that the transcripts of a chat are recorded to their ends: its requests held it all."""
    if info.host_session is None:
        return
    find = Threads().run(transcripts_of_chat, info.host, info.host_session, environ)
    for transcript in await find:
        await record_new(compactor, transcript, lambda _: info.project, passes_over=True)
