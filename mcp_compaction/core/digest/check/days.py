"""Reads the days that a draft's line and its source name, and compares them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from itertools import islice

from mcp_compaction.core.text.dates import Stretch, may_name_day, named_days, names_date
from mcp_compaction.core.text.patterns import pattern_of

_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
_YEAR = pattern_of(r"\d{4}")
_ISO = pattern_of(r"\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d)(?!\d)", re.A)
_MOST_DAYS = 31
_AROUND = 250  # characters of a line on either side of what may name a day
_MOST_IN_TEXT, _MOST_IN_ALL = 100, 1_000  # places in a text that may name a day, and in all


def days_of_source(texts: Sequence[tuple[str, datetime | None]]) -> frozenset[date]:
    """The days that texts name, and those on which they were said."""
    days = {at.date() for _, at in texts if at}
    days.update(date.fromisoformat(iso) for text, _ in texts for iso in set(_ISO.findall(text)))
    # To read a long text for days in words takes long; the newest tell most.
    said = ((line, at) for text, at in reversed(texts) for line in _lines_with_a_day(text))
    for line, at in dict.fromkeys(islice(said, _MOST_IN_ALL)):
        for stretch in named_days(line, at or _LONG_AGO):
            length = min(_MOST_DAYS, max(1, (stretch.end - stretch.begin).days))
            days.update(stretch.begin.date() + timedelta(days=n) for n in range(length))
    return frozenset(days)


def is_among(day: Stretch, days: frozenset[date]) -> bool:
    """Whether a day that a line names is one of a source; one without a year is of any year."""
    if not _YEAR.search(day.words):
        wanted = (day.begin.month, day.begin.day)
        return any((one.month, one.day) == wanted for one in days)
    last = (day.end - timedelta(microseconds=1)).date()
    return any(day.begin.date() <= one <= last for one in days)


def dates_in(line: str, now: datetime | None) -> Iterator[Stretch]:
    """The days that a line names by their date."""
    return (day for day in named_days(line, now or _LONG_AGO) if names_date(day.words))


def _lines_with_a_day(text: str) -> Iterator[str]:
    """The pieces of lines around what may name a day in words."""
    done = 0
    for match in islice(may_name_day(text), _MOST_IN_TEXT):
        if match.start() >= done:
            start = max(text.rfind("\n", 0, match.start()) + 1, match.start() - _AROUND)
            end = text.find("\n", match.end())
            done = min(end if end >= 0 else len(text), match.end() + _AROUND)
            yield text[start:done]
