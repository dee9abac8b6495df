"""The tool that tells how full the window is, as the server offers it: with facts for a page."""

from __future__ import annotations

from mcp.types import CallToolResult

from mcp_compaction.errors import NothingRecorded, UnknownSession
from mcp_compaction.server.tools.calling import ServerPlace, takes
from mcp_compaction.server.tools.replying import reply_without_session
from mcp_compaction.server.window_app import facts_of
from mcp_compaction.tools import stats
from mcp_compaction.tools.arguments import ContextStats


@takes(ContextStats)
async def context_stats(place: ServerPlace, asked: ContextStats) -> CallToolResult:
    """Answer a call of the tool; without a session, with what the project's earlier ones left."""
    try:
        answer = await stats.context_stats(place, asked)
    except (NothingRecorded, UnknownSession) as nothing:
        if place.name is not None:
            raise
        return await reply_without_session(place.ctx, str(nothing))
    return await place.reply(answer, facts=facts_of(answer.done))
