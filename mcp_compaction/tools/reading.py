"""Arguments that are given as text, read: cursors, times, and the size of a page of quotes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from mcp_compaction.compactor import Quote
from mcp_compaction.core.recall.pages import cut_page
from mcp_compaction.core.tokens import estimate
from mcp_compaction.errors import InputError

_CHARS_PER_TOKEN = 4
_MOST_DIGITS = 18  # of a cursor
_PER_PAGE, _PER_QUOTE = 110, 34  # tokens of the lines around a page, and around each text on it
_LEAST_TOKENS, _LEAST_CHARS = 20, 20  # a page always brings something


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


def parse_time(text: str | None) -> datetime | None:
    """The moment that an ISO time names, in UTC; without a zone it is the local time."""
    if text is None:
        return None
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):  # the year 1 has no local time, nor 9999 all of UTC
        raise InputError(f"{text!r} is no time; write it as 2026-11-30T18:00.") from None
