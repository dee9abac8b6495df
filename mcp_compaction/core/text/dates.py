"""Reads the dates a text names: which days, and in which words."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from typing import NamedTuple

from mcp_compaction.core.text.date_words import DateWords, date_words_of
from mcp_compaction.core.text.language import ENGLISH, languages_of


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
    found: list[_Named] = []
    # Dates in English stand in texts of every language.
    for language in dict.fromkeys((*languages_of(text), ENGLISH)):
        words = date_words_of(language)
        for pattern, reads in words.rows:
            for match in pattern.finditer(text):
                if any(match.start() < other.stop and other.start < match.end() for other in found):
                    continue
                said = _Said(match, words, now.date())
                days = _READERS[reads].read(said)
                if days is not None:
                    found.append(_name_stretch(said, days, now))
    return tuple(
        Stretch(one.begin, one.end, text[one.start : one.stop])
        for one in sorted(found)
        if one.begin < one.end
    )


_Days = tuple[date, date]  # the first day and the one after the last


class _Said(NamedTuple):
    """An expression that may name days, in the words of its language, and the day it was said."""

    match: re.Match[str]
    words: DateWords
    today: date

    def group(self, name: str) -> str:
        """What a group of the expression holds; nothing, where it has no such group."""
        return (self.match.groupdict().get(name) or "").strip()

    def number(self, table: str, name: str) -> int | None:
        """What a group's word stands for in a table of numbers."""
        return self.words.number_of(table, self.group(name))

    def meaning(self, table: str, name: str) -> str:
        """What a group's word means in English."""
        return self.words.meaning_of(table, self.group(name))


class _Named(NamedTuple):
    start: int
    stop: int
    begin: datetime
    end: datetime


_LONG_AGO = date(1970, 1, 1)
_DAY = date.resolution
_WEEK = 7 * _DAY


def _name_stretch(said: _Said, days: _Days, now: datetime) -> _Named:
    """The stretch that days are, with what "before", "after", "since" or "until" makes of it."""
    begin, end = (_midnight(day, now) for day in days)
    beginning, tomorrow = _midnight(_LONG_AGO, now), _midnight(now.date() + _DAY, now)
    match said.meaning("turns", "turn"):
        case "before":
            begin, end = beginning, begin
        case "after":
            begin, end = end, tomorrow
        case "since":
            end = tomorrow
        case "until":
            begin = beginning
        case _:
            pass
    return _Named(said.match.start(), said.match.end(), begin, end)


def _midnight(day: date, now: datetime) -> datetime:
    # Put together, not counted in seconds: a day may have 23 or 25 hours.
    return datetime.combine(day, time(), tzinfo=now.tzinfo)


# Days and months by name


def _date(year: int, month: int, day: int) -> date | None:
    try:
        return date(year, month, day) if 1900 <= year <= 2100 else None
    except ValueError:
        return None


def _monday(day: date) -> date:
    return day - timedelta(days=day.weekday())


def _month_of(day: date) -> _Days:
    first = day.replace(day=1)
    return first, _months_later(first, 1)


def _months_later(day: date, months: int) -> date:
    """The same day of another month, or the last one that month has."""
    count = day.year * 12 + day.month - 1 + months
    first = date(count // 12, count % 12 + 1, 1)
    last = (first + timedelta(days=31)).replace(day=1) - _DAY
    return min(first + timedelta(days=day.day - 1), last)


def _iso_day(said: _Said) -> _Days | None:
    day = _date(int(said.group("year")), int(said.group("number")), int(said.group("day")))
    return (day, day + _DAY) if day else None


def _iso_month(said: _Said) -> _Days | None:
    first = _date(int(said.group("year")), int(said.group("number")), 1)
    return _month_of(first) if first else None


def _day_of_month(said: _Said) -> _Days | None:
    month, number = said.number("months", "month"), int(said.group("day"))
    if month is None or _is_verb(said):
        return None
    if said.group("year"):
        first = _date(int(said.group("year")), month, number)
    else:  # nine years back, since 29 February is rare
        years = range(said.today.year, said.today.year - 9, -1)
        days = (_date(year, month, number) for year in years)
        first = next((day for day in days if day and day <= said.today), None)
    return (first, first + _DAY) if first else None


def _is_verb(said: _Said) -> bool:
    """Whether "may 20 users" and "20 may enter" speak of no day."""
    name, is_date = said.group("month"), said.group("year") or said.group("nth") or said.group("on")
    return said.words.is_in("month_verbs", name) and name.islower() and not is_date


def _month_and_year(said: _Said) -> _Days | None:
    month = said.number("months", "month")
    return _month_of(date(int(said.group("year")), month, 1)) if month else None


def _month_alone(said: _Said) -> _Days | None:
    month = said.number("months", "month")
    if month is None or _is_verb(said):
        return None
    return _month_of(date(said.today.year - (month > said.today.month), month, 1))


def _weekday(said: _Said) -> _Days | None:
    name, number = said.group("weekday"), said.number("weekdays", "weekday")
    if number is None:
        return None
    if said.words.is_in("short_weekdays", name) and name.islower():  # "the sun", "he sat"
        return None
    ago = (said.today.weekday() - number) % 7
    match said.number("steps", "which"):
        case -1:
            day = said.today - timedelta(days=ago or 7)
        case 0:
            day = _monday(said.today) + timedelta(days=number)
        case 1:
            day = said.today + timedelta(days=7 - ago)
        case _:
            day = said.today - timedelta(days=ago)
    return day, day + _DAY


# Days as seen from today


_UNIT_DAYS = {"day": 1, "week": 7, "month": 31, "year": 365}


def _count_of(said: _Said) -> int:
    written = said.group("count")
    return int(written) if written.isdigit() else said.number("counts", "count") or 0


def _back(today: date, count: int, unit: str) -> date | None:
    if unit not in _UNIT_DAYS:
        return None
    months = {"month": count, "year": 12 * count}.get(unit)
    if months is None:
        return today - timedelta(days=count * _UNIT_DAYS[unit])
    return _months_later(today, -months) if months < 12 * 100 else None


def _ago(said: _Said) -> _Days | None:
    """A day, or a week, month or year around that day: "two weeks ago" names no single one."""
    unit = said.meaning("units", "unit")
    middle = _back(said.today, _count_of(said), unit)
    if middle is None:
        return None
    length = _UNIT_DAYS[unit]
    first = middle - timedelta(days=length // 2)
    return first, first + timedelta(days=length)


def _near_day(said: _Said) -> _Days:
    day = said.today + timedelta(days=said.number("near_days", "near") or 0)
    return day, day + _DAY


def _near(said: _Said) -> _Days | None:
    step = said.number("steps", "which")
    if step is None:
        return None
    match said.meaning("units", "unit"):
        case "week":
            first = _monday(said.today) + step * _WEEK
            return first, first + _WEEK
        case "month":
            return _month_of(_months_later(said.today.replace(day=1), step))
        case "year":
            return date(said.today.year + step, 1, 1), date(said.today.year + step + 1, 1, 1)
        case _:
            return None


class _Reader:
    """What reads an expression, and the groups without which it reads nothing."""

    def __init__(self, read: Callable[[_Said], _Days | None], *groups: str) -> None:
        self.read = read
        self.groups = frozenset(groups)


# What a lexicon calls each of them
_READERS: Mapping[str, _Reader] = {
    "iso-day": _Reader(_iso_day, "year", "number", "day"),
    "iso-month": _Reader(_iso_month, "year", "number"),
    "day-of-month": _Reader(_day_of_month, "day", "month"),
    "month-and-year": _Reader(_month_and_year, "month", "year"),
    "month-alone": _Reader(_month_alone, "month"),
    "weekday": _Reader(_weekday, "weekday"),
    "near-day": _Reader(_near_day, "near"),
    "near": _Reader(_near, "which", "unit"),
    "ago": _Reader(_ago, "count", "unit"),
}
DATE_READERS: Mapping[str, frozenset[str]] = {name: one.groups for name, one in _READERS.items()}
"""The groups that the pattern of a date needs, by what reads it."""
