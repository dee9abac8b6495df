"""The tool that tells how full the window is: context_stats."""

from __future__ import annotations

from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult

from mcp_compaction.compactor import Compactor
from mcp_compaction.core.log.outline import find_boundary_cues, outline_of
from mcp_compaction.errors import NothingRecorded, UnknownSession
from mcp_compaction.model import Session
from mcp_compaction.server.state import State, errors_as, state_of
from mcp_compaction.server.tools.replying import Ctx, reply, reply_without_session
from mcp_compaction.server.window_app import facts_of
from mcp_compaction.tools import answers, arguments
from mcp_compaction.tools.hooked_answers import HookedChat


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
    loaded = await compactor.load(info)
    found = await compactor.stats_of(loaded)
    passages = await state.threads.run(outline_of, loaded.messages) if detail == "full" else ()
    cues = await state.threads.run(find_boundary_cues, loaded.messages)
    mode = state.mode(ctx, info)
    hooked = await _hooked_chat(state, compactor, loaded, found.fill.tokens)
    text = answers.stats_text(found, mode, cues, passages, by_agent=state.by_agent, hooked=hooked)
    return await reply(ctx, info, text, asked=session, has_fill=True, facts=facts_of(found))


async def _hooked_chat(
    state: State, compactor: Compactor, session: Session, tokens: int
) -> HookedChat | None:
    info = session.info
    is_reported = session.calibration.reported > 0
    served = state.mod.limit_of(info.host_session)
    if served is not None:
        return HookedChat(info.host, is_reported, served, "where it compacts by itself")
    if not state.events.has_heard_of(info.host_session):
        return None
    limit = await state.events.find_limit(compactor, info, tokens)
    if limit is None:
        return HookedChat(info.host, is_reported, None)
    return HookedChat(info.host, is_reported, limit.tokens, limit.describe())
