"""Reads the dates a text names: which days, and in which words."""

from __future__ import annotations

import re
from datetime import date, datetime, time, timedelta
from functools import cache
from typing import NamedTuple

from mcp_compaction.core.text.language import ENGLISH, languages_of
from mcp_compaction.core.text.patterns import pattern_of
from mcp_compaction.core.text.words import one_line
from mcp_compaction.lexicon.languages import Lexicon, read_lexicon


class Stretch(NamedTuple):
    """A stretch of time, `end` exclusive, and the exact words that name it."""

    begin: datetime
    end: datetime
    words: str


def named_days(text: str, now: datetime) -> tuple[Stretch, ...]:
    """The stretches of time a text names, in its order, as local times in the zone of `now`.

    A date without a year means its latest past occurrence. What lies ahead ("next Tuesday")
    begins after now: nothing was said then yet.
    """
    found: dict[tuple[int, int], Stretch] = {}
    # Dates in English stand in texts of every language.
    for language in dict.fromkeys((*languages_of(text), ENGLISH)):
        for pattern in _date_patterns(language):
            for match in pattern.finditer(text):
                if any(match.start() < end and start < match.end() for start, end in found):
                    continue
                said = _Said(match, read_lexicon(language), now.date())
                days = _read_days(said)
                if days is not None:
                    found[match.span()] = _name_stretch(said, days, now)
    return tuple(found[place] for place in sorted(found) if found[place].begin < found[place].end)


@cache
def _date_patterns(language: str) -> tuple[re.Pattern[str], ...]:
    """The expressions that name days in a language, in their order; a space in one stands for any
    white space."""
    lexicon = read_lexicon(language)
    joined = (
        "|".join(map(lexicon.fill, one.pattern)) for one in lexicon.sign if one.kind == "date"
    )
    spaced = (one.replace(" ?", r"\s*").replace(" ", r"\s+") for one in joined)
    # ASCII where it can be, so that no letter of another alphabet passes for one of a name.
    return tuple(pattern_of(one, re.I | re.A if one.isascii() else re.I) for one in spaced)


class _Said(NamedTuple):
    """An expression that may name days, in the words of its language, and the day it was said."""

    match: re.Match[str]
    lexicon: Lexicon
    today: date

    def group(self, name: str) -> str:
        """What a group of the expression holds; nothing, where it has no such group."""
        return (self.match.groupdict().get(name) or "").strip()

    def meaning(self, table: str, name: str) -> str:
        """What a group's word stands for in a table."""
        word = one_line(self.group(name).lower()).rstrip(".")
        return self.lexicon.tables.get(table, {}).get(word, "")

    def number(self, table: str, name: str) -> int | None:
        """What a group's word stands for in a table of numbers."""
        found = self.meaning(table, name)
        return int(found) if found else None


_Days = tuple[date, date]  # the first day and the one after the last
_LONG_AGO = date(1970, 1, 1)
_DAY = date.resolution
_UNITS = {"day": _DAY, "week": timedelta(7), "month": timedelta(31), "year": timedelta(365)}


def _name_stretch(said: _Said, days: _Days, now: datetime) -> Stretch:
    """The stretch that days are, with what "before", "after", "since" or "until" makes of it."""
    begin, end = days
    match said.meaning("turns", "turn"):
        case "before":
            begin, end = _LONG_AGO, begin
        case "after":
            begin, end = end, said.today + _DAY
        case "since":
            end = said.today + _DAY
        case "until":
            begin = _LONG_AGO
        case _:
            pass
    # Put together, not counted in seconds: a day may have 23 or 25 hours.
    first, last = (datetime.combine(day, time(), tzinfo=now.tzinfo) for day in (begin, end))
    return Stretch(first, last, said.match[0])


def _read_days(said: _Said) -> _Days | None:
    """The days of an expression, which its groups tell how to read."""
    if said.group("near"):
        day = said.today + timedelta(days=said.number("near_days", "near") or 0)
        return day, day + _DAY
    if said.group("weekday"):
        return _read_weekday(said)
    if said.group("unit"):
        return _count_back(said) if said.group("count") else _read_near(said)
    return _read_calendar(said)


def _read_calendar(said: _Said) -> _Days | None:
    """A day or a month, by name or by number; without a year the last one, back to a rare one."""
    number = said.group("number")
    month = int(number) if number else said.number("months", "month")
    is_told = said.group("year") or said.group("nth") or said.group("on")
    if month is None or (not is_told and said.group("month") in said.lexicon.words("month_verbs")):
        return None  # "may 20 users" and "20 may enter" speak of no day
    year, day = said.group("year"), said.group("day")
    years = [int(year)] if year else range(said.today.year, said.today.year - 9, -1)
    days = (_date(one, month, int(day or 1)) for one in years)
    first = next((one for one in days if one and (year or one <= said.today)), None)
    if first is None:
        return None
    return (first, first + _DAY) if day else (first, _month_later(first, 1))


def _date(year: int, month: int, day: int) -> date | None:
    try:
        return date(year, month, day) if 1900 <= year <= 2100 else None
    except ValueError:
        return None


def _month_later(day: date, months: int) -> date:
    """The first day of another month."""
    count = day.year * 12 + day.month - 1 + months
    return date(count // 12, count % 12 + 1, 1)


def _read_weekday(said: _Said) -> _Days | None:
    number = said.number("weekdays", "weekday")
    if number is None or said.group("weekday") in said.lexicon.words("short_weekdays"):
        return None  # "the sun", "he sat"
    ago = timedelta(days=(said.today.weekday() - number) % 7)
    match said.number("steps", "which"):
        case -1:
            day = said.today - (ago or _UNITS["week"])
        case 0:
            day = said.today + timedelta(days=number - said.today.weekday())
        case 1:
            day = said.today + _UNITS["week"] - ago
        case _:
            day = said.today - ago
    return day, day + _DAY


def _count_back(said: _Said) -> _Days | None:
    """A day, or a week, month or year around that day: "two weeks ago" names no single one."""
    length = _UNITS.get(said.meaning("units", "unit"))
    written = said.group("count")
    count = int(written) if written.isdigit() else said.number("counts", "count") or 0
    if length is None or count * length > said.today - _LONG_AGO:
        return None
    first = said.today - count * length - length.days // 2 * _DAY
    return first, first + length


def _read_near(said: _Said) -> _Days | None:
    step = said.number("steps", "which")
    if step is None:
        return None
    match said.meaning("units", "unit"):
        case "week":
            first = said.today - timedelta(days=said.today.weekday()) + step * _UNITS["week"]
            return first, first + _UNITS["week"]
        case "month":
            return _month_later(said.today, step), _month_later(said.today, step + 1)
        case "year":
            return date(said.today.year + step, 1, 1), date(said.today.year + step + 1, 1, 1)
        case _:
            return None
