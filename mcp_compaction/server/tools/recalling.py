"""The tool that gives back what left the window: recall_archived."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Annotated, Literal, cast

from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult
from pydantic import BeforeValidator, Field

from mcp_compaction.compactor import Compactor, Quote
from mcp_compaction.core.compaction.receipt.text import outcome_text
from mcp_compaction.core.recall.pages import cut_page
from mcp_compaction.errors import InputError, NothingRecorded, UnknownSession
from mcp_compaction.model import Compaction, Outcome, Refusal, SessionInfo
from mcp_compaction.server import answers
from mcp_compaction.server.state import State, errors_as, state_of
from mcp_compaction.server.tools.replying import (
    Ctx,
    Name,
    directive_of,
    reply,
    reply_without_session,
    session_if_any,
)

_CHARS_PER_TOKEN = 4
_PER_PAGE, _PER_QUOTE = 110, 34  # tokens of the lines around a page, and around each text on it
_LEAST_TOKENS, _LEAST_CHARS = 20, 20  # a page always brings something


def _join_refs(given: object) -> object:
    """A list of refs as the text that names them all."""
    if not isinstance(given, list):
        return given
    refs = cast("list[object]", given)
    return " ".join(map(str, refs)) if all(isinstance(ref, str) for ref in refs) else refs


@errors_as(ToolError)
async def recall_archived(
    ctx: Ctx,
    query: Annotated[
        str | None,
        Field(description="Words and identifiers; also role:user tool:Bash since:2026-11-01."),
    ] = None,
    refs: Annotated[
        str | None,
        BeforeValidator(_join_refs),  # a list is taken, too; to say so would cost every turn
        Field(description="m42, m42~3 with neighbors, m12..m40, d1, p2, call id."),
    ] = None,
    scope: Annotated[
        Literal["session", "project", "all"], Field(description="Where to look.")
    ] = "session",
    max_tokens: Annotated[int, Field(description="Answer size.", ge=50, le=20000)] = 1000,
    cursor: Annotated[str | None, Field(description="From the answer before.")] = None,
    keep: Annotated[bool, Field(description="Refs stay in view.")] = False,
    session: Name = None,
) -> CallToolResult:
    """Find what left the window, word for word with refs.

    Without query and refs: the brief to resume.
    """
    state = state_of(ctx)
    compactor = await state.compactor()
    nonce = secrets.token_hex(3)
    skip = _parse_cursor(cursor)
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
        )
        text = answers.recall_text(hits, _place_of(state, info), query or "", nonce, skip)
    else:
        info = await _find_session(ctx, session, scope)
        kept = await _page_in(ctx, info, refs) if keep and not skip else None
        if isinstance(kept, Compaction):
            meta = await directive_of(state, info, kept)
            return await reply(ctx, info, outcome_text(kept), meta, asked=session)
        # Who turns a page recalls nothing new, and who looks into another project leaves no trace.
        is_new = not skip and info.project == project
        found = await (compactor.recall_refs if is_new else compactor.quote)(info, refs)
        size = _page_size(compactor, found, max_tokens, skip)
        text = answers.quote_text(found, info, project, nonce, size, skip)
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


def _place_of(state: State, info: SessionInfo | None) -> answers.Place:
    if info is None:
        return answers.Place(state.project)
    name = info.name if info.project == state.project else ""
    return answers.Place(state.project, name, info.updated.year)


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
    text = answers.brief_text(brief, nonce, state.project, must_name=is_elsewhere)
    return await reply(ctx, info, text, asked=name)


def _page_size(compactor: Compactor, found: Sequence[Quote], max_tokens: int, skip: int) -> int:
    """The characters of a page that takes no more tokens than wanted."""
    texts = [quote.text for quote in found]
    room = max(_LEAST_TOKENS, max_tokens - _PER_PAGE)
    most = room * _CHARS_PER_TOKEN
    while True:
        pieces = cut_page(texts, skip, most).pieces
        tokens = sum(compactor.count(text) + _PER_QUOTE for _, text in pieces)
        if tokens <= room or most <= _LEAST_CHARS:
            return most
        most = max(_LEAST_CHARS, min(most - 1, most * room // tokens))


def _parse_cursor(cursor: str | None) -> int:
    if cursor is None:
        return 0
    if not cursor.isdecimal():
        raise InputError(f"{cursor!r} is no cursor; pass the one from the answer before.")
    return int(cursor)
