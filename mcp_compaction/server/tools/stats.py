"""The tool that tells how full the window is: context_stats."""

from __future__ import annotations

from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult

from mcp_compaction.core.log.outline import find_boundary_cues, outline_of
from mcp_compaction.errors import NothingRecorded, UnknownSession
from mcp_compaction.server.state import errors_as, state_of
from mcp_compaction.server.tools.replying import Ctx, hooked_chat, reply, reply_without_session
from mcp_compaction.server.window_app import facts_of
from mcp_compaction.tools import answers, arguments


@errors_as(ToolError)
async def context_stats(
    ctx: Ctx,
    detail: arguments.Detail = "brief",
    session: arguments.Session = None,
) -> CallToolResult:
    """Answer a call of the tool: the fill, the pins, and what compressing would free."""
    state = state_of(ctx)
    compactor = await state.compactor()
    try:
        info, _ = await state.session(ctx, session, "look")
    except (NothingRecorded, UnknownSession) as nothing:
        if session is not None:
            raise
        return await reply_without_session(ctx, str(nothing))
    loaded = await compactor.load_newest(info)
    found = await compactor.stats_of(loaded)
    passages = await state.threads.run(outline_of, loaded.messages) if detail == "full" else ()
    cues = await state.threads.run(find_boundary_cues, loaded.messages)
    mode = state.mode(ctx, info)
    hooked = await hooked_chat(state, compactor, info, found.fill.tokens)
    text = answers.stats_text(found, mode, cues, passages, by_agent=state.by_agent, hooked=hooked)
    return await reply(ctx, info, text, asked=session, facts=facts_of(found))
