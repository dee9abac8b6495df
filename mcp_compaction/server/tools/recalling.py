"""The tool that gives back what left the window, as the server offers it."""

from __future__ import annotations

from mcp.types import CallToolResult

from mcp_compaction.model import Compaction
from mcp_compaction.server.tools.calling import NoSessionMeantError, ServerPlace, takes
from mcp_compaction.server.tools.replying import directive_of, reply_without_session
from mcp_compaction.tools import recalling
from mcp_compaction.tools.arguments import RecallArchived


@takes(RecallArchived)
async def recall_archived(place: ServerPlace, asked: RecallArchived) -> CallToolResult:
    """Answer a call of the tool: with a directive where the window changes."""
    try:
        answer = await recalling.recall_archived(place, asked)
    except NoSessionMeantError as told:
        return await reply_without_session(place.ctx, str(told))
    meta = None
    if answer.info is not None and isinstance(answer.done, Compaction):
        meta = await directive_of(place.state, answer.info, answer.done)
    return await place.reply(answer, meta)
