"""The tool that gives back what left the window: recall_archived."""

from __future__ import annotations

from collections.abc import Sequence

from mcp_compaction import compactor
from mcp_compaction.compactor.results import Quote
from mcp_compaction.core.compaction.receipt import outcome_text
from mcp_compaction.core.recall.answer import cut_page
from mcp_compaction.core.tokens import estimate
from mcp_compaction.errors import InputError
from mcp_compaction.model import Compaction, Outcome, Refusal, SessionInfo
from mcp_compaction.tools import answers
from mcp_compaction.tools.arguments import RecallArchived
from mcp_compaction.tools.place import CallAnswer, CallPlace
from mcp_compaction.tools.recall_answers import (
    AnswerPlace,
    brief_text,
    new_nonce,
    quote_text,
    recall_text,
)

_CHARS_PER_TOKEN = 4
_MOST_DIGITS = 18  # of a cursor
_PER_PAGE, _PER_QUOTE = 110, 34  # tokens of the lines around a page, and around each text on it
_LEAST_TOKENS, _LEAST_CHARS = 20, 20  # a page always brings something


async def recall_archived(place: CallPlace, asked: RecallArchived) -> CallAnswer:
    """Passages, originals, or the brief of a session."""
    skip = parse_cursor(asked.cursor)
    if asked.scope == "all" and place.must_name:
        raise InputError('scope="all" is for the user of this machine; pass scope="project".')
    if asked.query is not None and asked.refs is not None:
        raise InputError("pass query to look for words, or refs to read what they name; not both.")
    if asked.keep and asked.refs is None:
        raise InputError('keep puts messages back by their refs; pass them too, as refs="m42".')
    if asked.query is not None:
        return await _search(place, asked, asked.query, skip)
    if asked.refs is not None:
        return await _read(place, asked, asked.refs, skip)
    info = await place.find_to_resume(asked.scope)
    brief = await compactor.brief(await place.workspace(), info)
    is_elsewhere = place.is_of_another_chat(info)
    return CallAnswer(brief_text(brief, new_nonce(), place.project, must_name=is_elsewhere), info)


async def _search(place: CallPlace, asked: RecallArchived, query: str, skip: int) -> CallAnswer:
    """The passages for a query; beyond one session none has to be named."""
    must_find = asked.scope == "session" or place.is_named
    info = await (place.find(asked.scope) if must_find else place.session_if_any())
    has_view = info is not None and place.mode(info) == "own"
    found = await compactor.recall(
        await place.workspace(),
        info,
        query,
        scope=asked.scope,
        project=place.project,
        max_tokens=asked.max_tokens,
        skip=skip,
        has_view=has_view,
        asks_in_chat=has_view or not place.is_named,
    )
    here = AnswerPlace(place.project)
    if info is not None:
        name = info.name if info.project == place.project else ""
        here = AnswerPlace(place.project, name, info.updated.year)
    text = recall_text(found, here, query, new_nonce(), skip)
    return CallAnswer(text, info, found, shows_pins=not skip)


async def _read(place: CallPlace, asked: RecallArchived, refs: str, skip: int) -> CallAnswer:
    """The originals that refs name, a page at a time; with `keep` they are shown again."""
    work, info = await place.workspace(), await place.find(asked.scope)
    kept = await _page_in(place, info, refs) if asked.keep and not skip else None
    if isinstance(kept, Compaction):
        return CallAnswer(outcome_text(kept), info, kept)
    # Who turns a page recalls nothing new, and who looks into another project leaves no trace.
    is_new = not skip and info.project == place.project
    found = await (compactor.recall_refs if is_new else compactor.quote)(work, info, refs)
    size = page_size(found, asked.max_tokens, skip)
    text = quote_text(found, info, place.project, new_nonce(), size, skip)
    text = text if kept is None else f"{outcome_text(kept)}\n{text}"
    return CallAnswer(text, info, found, shows_pins=not skip)


async def _page_in(place: CallPlace, info: SessionInfo, refs: str) -> Outcome:
    """Show messages again in the window, where that is the caller's own."""
    if info.project != place.project or place.mode(info) != "own":
        return Refusal(reason="window_of_host", text=answers.NOT_KEPT)
    return await compactor.page_in(await place.workspace(), info, refs)


def page_size(found: Sequence[Quote], max_tokens: int, skip: int) -> int:
    """The characters of a page that takes no more tokens than wanted."""
    texts = [quote.text for quote in found]
    room = max(_LEAST_TOKENS, max_tokens - _PER_PAGE)
    most = room * _CHARS_PER_TOKEN
    while True:
        pieces = cut_page(texts, skip, most).pieces
        tokens = sum(estimate(text) + _PER_QUOTE for _, text in pieces)
        if tokens <= room or most <= _LEAST_CHARS:
            return most
        most = max(_LEAST_CHARS, min(most - 1, most * room // tokens))


def parse_cursor(cursor: str | None) -> int:
    """The number of passages or characters that a cursor leaves out."""
    if cursor is None:
        return 0
    if not cursor.isdecimal() or len(cursor) > _MOST_DIGITS:
        raise InputError(f"{cursor!r} is no cursor; pass the one from the answer before.")
    return int(cursor)
