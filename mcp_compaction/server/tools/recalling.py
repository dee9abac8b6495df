"""The tool that gives back what left the window: recall_archived."""

from __future__ import annotations

from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult

from mcp_compaction.core.compaction.receipt.text import outcome_text
from mcp_compaction.errors import InputError, NothingRecorded, UnknownSession
from mcp_compaction.model import Compaction, Outcome, Refusal, SessionInfo
from mcp_compaction.server.state import State, errors_as, state_of
from mcp_compaction.server.tools.replying import (
    Ctx,
    directive_of,
    reply,
    reply_without_session,
    session_if_any,
)
from mcp_compaction.tools import answers, arguments, recall_answers
from mcp_compaction.tools.reading import page_size, parse_cursor


@errors_as(ToolError)
async def recall_archived(
    ctx: Ctx,
    query: arguments.Query = None,
    refs: arguments.Refs = None,
    scope: arguments.SearchIn = "session",
    max_tokens: arguments.MaxTokens = 1000,
    cursor: arguments.Cursor = None,
    keep: arguments.Keep = False,
    session: arguments.Session = None,
) -> CallToolResult:
    """Answer a call of the tool: passages, originals, or the brief of a session."""
    state = state_of(ctx)
    compactor = await state.compactor()
    nonce = recall_answers.new_nonce()
    skip = parse_cursor(cursor)
    if scope == "all" and state.finder.must_name:
        raise InputError('scope="all" is for the user of this machine; pass scope="project".')
    if query is not None and refs is not None:
        raise InputError("pass query to look for words, or refs to read what they name; not both.")
    if keep and refs is None:
        raise InputError('keep puts messages back by their refs; pass them too, as refs="m42".')
    if query is None and refs is None:
        return await _resume(ctx, session, scope, nonce)
    project = state.project
    if refs is None:
        info = await _session_to_search_from(ctx, session, scope)
        has_view = info is not None and state.mode(ctx, info) == "own"
        hits = await compactor.recall(
            info,
            query or "",
            scope=scope,
            project=project,
            max_tokens=max_tokens,
            skip=skip,
            has_view=has_view,
            asks_in_chat=session is None,
        )
        text = recall_answers.recall_text(hits, _place_of(state, info), query or "", nonce, skip)
    else:
        info = await _find_session(ctx, session, scope)
        kept = await _page_in(ctx, info, refs) if keep and not skip else None
        if isinstance(kept, Compaction):
            meta = await directive_of(state, info, kept)
            return await reply(ctx, info, outcome_text(kept), meta, asked=session)
        # Who turns a page recalls nothing new, and who looks into another project leaves no trace.
        is_new = not skip and info.project == project
        found = await (compactor.recall_refs if is_new else compactor.quote)(info, refs)
        size = page_size(found, max_tokens, skip)
        text = recall_answers.quote_text(found, info, project, nonce, size, skip)
        text = text if kept is None else f"{outcome_text(kept)}\n{text}"
    return await reply(ctx, info, text, asked=session, shows_pins=not skip)


async def _find_session(ctx: Ctx, name: str | None, scope: str) -> SessionInfo:
    """The session a recall means; across projects only when that was asked for."""
    state = state_of(ctx)
    try:
        return (await state.session(ctx, name, "look"))[0]
    except UnknownSession:
        found = None
        if scope == "all" and name is not None:
            found = await (await state.compactor()).find_anywhere(name.strip())
        if found is None:
            raise
        return found


async def _page_in(ctx: Ctx, info: SessionInfo, refs: str) -> Outcome:
    """Show messages again in the window, where that is the caller's own."""
    state = state_of(ctx)
    if info.project != state.project or state.mode(ctx, info) != "own":
        return Refusal(reason="window_of_host", text=answers.NOT_KEPT)
    return await (await state.compactor()).page_in(info, refs)


async def _session_to_search_from(ctx: Ctx, name: str | None, scope: str) -> SessionInfo | None:
    """The session a search starts from; beyond one session none has to be named."""
    state = state_of(ctx)
    if scope == "session" or name is not None or state.finder.must_name:
        return await _find_session(ctx, name, scope)
    return await session_if_any(ctx, None)


def _place_of(state: State, info: SessionInfo | None) -> recall_answers.AnswerPlace:
    if info is None:
        return recall_answers.AnswerPlace(state.project)
    name = info.name if info.project == state.project else ""
    return recall_answers.AnswerPlace(state.project, name, info.updated.year)


async def _resume(ctx: Ctx, name: str | None, scope: str, nonce: str) -> CallToolResult:
    state = state_of(ctx)
    compactor = await state.compactor()
    finder = state.finder
    if (
        name is None
        and not finder.must_name
        and not state.host(ctx).has_session
        and len(finder.known) != 1
    ):
        found = await compactor.sessions(state.project, 5)
        if not found:
            raise InputError(
                f"nothing is kept for this project yet; {finder.ways_to_start} starts it."
            )
        return await reply_without_session(ctx, answers.sessions_text(found))
    try:
        info = await _find_session(ctx, name, scope)
    except NothingRecorded as nothing:
        if not await compactor.project_pins(state.project):
            raise
        return await reply_without_session(ctx, str(nothing))
    finder.remember(info)
    brief = await compactor.brief(info)
    is_elsewhere = state.is_of_another_chat(ctx, info)
    text = recall_answers.brief_text(brief, nonce, state.project, must_name=is_elsewhere)
    return await reply(ctx, info, text, asked=name)
