"""Reads the days that a draft's line and its source name, and compares them."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cached_property
from itertools import islice

from mcp_compaction.core.text.dates import Stretch, may_name_day, named_days, names_date
from mcp_compaction.core.text.patterns import pattern_of

_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
_YEAR = pattern_of(r"\d{4}")
_ISO = pattern_of(r"\d{4}-\d\d-\d\d(?!\d)", re.A)
_MOST_DAYS = 31
_LONGEST_LINE, _MOST_LINES, _MOST_IN_ALL = 500, 100, 1_000  # characters; lines


@dataclass(frozen=True)
class SourceDays:
    """The days of a source: those it gives as dates, in order, and those it gives in words."""

    dates: Sequence[date]
    stretches: Sequence[Stretch]

    def holds(self, day: Stretch) -> bool:
        """Whether the source names a day; one without a year matches any year."""
        if not _YEAR.search(day.words):
            return f"{day.begin:%m-%d}" in self._of_any_year
        place = bisect_left(self.dates, day.begin.date())
        is_dated = place < len(self.dates) and self.dates[place] <= _last_day(day)
        return is_dated or any(
            day.begin < other.end and other.begin < day.end for other in self.stretches
        )

    @cached_property
    def _of_any_year(self) -> frozenset[str]:
        dated = {f"{day:%m-%d}" for day in self.dates}
        return frozenset(dated.union(*map(_days_of_year, self.stretches)))


def days_of_source(texts: Sequence[tuple[str, datetime | None]]) -> SourceDays:
    """The days that texts name, and those on which they were said."""
    dates = {at.date() for _, at in texts if at}
    for written in {iso for text, _ in texts for iso in _ISO.findall(text)}:
        dates.update(_parse_date(written))
    # To read a long text for days in words takes long; the newest tell most.
    lines = islice(_distinct_lines(reversed(texts)), _MOST_IN_ALL)
    stretches = (day for line, at in lines for day in named_days(line, at or _LONG_AGO))
    return SourceDays(sorted(dates), tuple(stretches))


def dates_in(line: str, now: datetime | None) -> Iterator[Stretch]:
    """The days that a line names by their date."""
    return (day for day in named_days(line, now or _LONG_AGO) if names_date(day.words))


def _parse_date(written: str) -> Iterable[date]:
    try:
        return (date.fromisoformat(written),)
    except ValueError:
        return ()


def _distinct_lines(
    texts: Iterable[tuple[str, datetime | None]],
) -> Iterator[tuple[str, datetime | None]]:
    """The lines of texts that may name a day in words, each once with when it was said."""
    seen: set[tuple[str, datetime | None]] = set()
    for text, at in texts:
        for line in islice(_lines_that_may_name_a_day(text), _MOST_LINES):
            if (line, at) not in seen:
                seen.add((line, at))
                yield line, at


def _lines_that_may_name_a_day(text: str) -> Iterator[str]:
    """The lines of a text that may name a day in words."""
    done = 0
    for match in may_name_day(text):
        if match.start() < done:
            continue
        start = text.rfind("\n", 0, match.start()) + 1
        end = text.find("\n", match.end())
        done = end if end >= 0 else len(text)
        yield text[max(start, match.start() - _LONGEST_LINE // 2) : done][:_LONGEST_LINE]


def _last_day(day: Stretch) -> date:
    return (day.end - timedelta(microseconds=1)).date()


def _days_of_year(stretch: Stretch) -> set[str]:
    number = min(_MOST_DAYS, max(1, (stretch.end - stretch.begin).days))
    return {f"{stretch.begin + timedelta(days=n):%m-%d}" for n in range(number)}
