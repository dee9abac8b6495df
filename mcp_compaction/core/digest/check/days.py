"""Reads the days that a draft's line and its source name, and compares them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from itertools import islice

from mcp_compaction.core.limits import LONGEST_LINE, MOST_LOOKED_AT
from mcp_compaction.core.text.dates import Stretch, may_name_day, named_days, names_date
from mcp_compaction.core.text.patterns import pattern_of

Days = frozenset[tuple[date, date]]  # the first and the last of each stretch

_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
_YEAR = pattern_of(r"\d{4}")
_ISO = pattern_of(r"\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d)(?!\d)", re.A)


def days_of_source(texts: Sequence[tuple[str, datetime | None]]) -> Days:
    """The days that texts name, and those on which they were said."""
    days = {at.date() for _, at in texts if at}
    days.update(date.fromisoformat(iso) for text, _ in texts for iso in set(_ISO.findall(text)))
    # To read a long text for days in words takes long; the newest tell most.
    said = ((line, at) for text, at in reversed(texts) for line in _lines_with_a_day(text))
    newest = dict.fromkeys(islice(said, 10 * MOST_LOOKED_AT))
    named = (day for line, at in newest for day in named_days(line, at or _LONG_AGO))
    return frozenset((*((day, day) for day in days), *map(_ends_of, named)))


def is_among(day: Stretch, days: Days) -> bool:
    """Whether a day that a line names is one of a source; one without a year is of any year."""
    first, last = _ends_of(day)
    if _YEAR.search(day.words):
        return any(first <= end and begin <= last for begin, end in days)
    wanted = (first.month, first.day)
    return any((begin.month, begin.day) == wanted or begin <= first <= end for begin, end in days)


def _ends_of(stretch: Stretch) -> tuple[date, date]:
    return stretch.begin.date(), (stretch.end - timedelta(microseconds=1)).date()


def dates_in(line: str, now: datetime | None) -> Iterator[Stretch]:
    """The days that a line names by their date."""
    return (day for day in named_days(line, now or _LONG_AGO) if names_date(day.words))


def _lines_with_a_day(text: str) -> Iterator[str]:
    """The pieces of lines around what may name a day in words."""
    done = 0
    for match in islice(may_name_day(text), MOST_LOOKED_AT):
        if match.start() >= done:
            start = max(text.rfind("\n", 0, match.start()) + 1, match.start() - LONGEST_LINE)
            end = text.find("\n", match.end())
            done = min(end if end >= 0 else len(text), match.end() + LONGEST_LINE)
            yield text[start:done]
