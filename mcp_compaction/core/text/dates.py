"""Reads the dates a text names: which days, and in which words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, time, timedelta
from typing import NamedTuple

from mcp_compaction.core.limits import LONGEST_ANSWER
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
    joined = _join_ranges(text, sorted(found))
    return tuple(
        Stretch(one.begin, one.end, text[one.start : one.stop])
        for one in joined
        if one.begin < one.end
    )


def may_name_day(text: str) -> list[re.Match[str]]:
    """Where a text may name a day, in its order: a cheap look, which rather finds too much."""
    languages = dict.fromkeys((*languages_of(text[:LONGEST_ANSWER]), ENGLISH))
    hints = [hint for code in languages if (hint := date_words_of(code).part("day_hint"))]
    found = [match for hint in hints for match in hint.finditer(text)]
    return found if len(hints) == 1 else sorted(found, key=re.Match[str].start)


def names_date(words: str) -> bool:
    """Whether the words that name days give them by their number, as "12 May" and "2026-11-01"."""
    languages = dict.fromkeys((*languages_of(words), ENGLISH))
    patterns = (date_words_of(language).part("date_in_numbers") for language in languages)
    return any(pattern.search(words) for pattern in patterns if pattern)


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
    words: DateWords


# From when to when a part of a day lasts, in hours; a night ends on the next day.
_PARTS = {"morning": (0, 12), "afternoon": (12, 18), "evening": (17, 24), "night": (18, 30)}
_LONG_AGO = date(1970, 1, 1)
_DAY = date.resolution
_WEEK = 7 * _DAY


def _name_stretch(said: _Said, days: _Days, now: datetime) -> _Named:
    first, after = days
    if said.group("week"):
        first = _monday(first)
        after = first + _WEEK
    part = said.meaning("day_parts", "part")
    if part:
        from_hour, to_hour = _PARTS[part]
        begin, end = _at(first, from_hour, now), _at(first, to_hour, now)
    else:
        begin, end = _at(first, 0, now), _at(after, 0, now)
    begin, end = _apply_preposition(said, begin, end, now)
    return _Named(said.match.start(), said.match.end(), begin, end, said.words)


def _apply_preposition(
    said: _Said, begin: datetime, end: datetime, now: datetime
) -> tuple[datetime, datetime]:
    """The stretch that "before", "after", "since" or "until" makes of a named one."""
    beginning, tomorrow = _at(_LONG_AGO, 0, now), _at(now.date() + _DAY, 0, now)
    length = said.meaning("units", "length")
    match said.meaning("turns", "turn"):
        case "before" if length:
            first, after = _beside(begin.date(), length, -1)
            return _at(first, 0, now), _at(after, 0, now)
        case "after" if length:
            first, after = _beside(end.date(), length, 1)
            return _at(first, 0, now), _at(after, 0, now)
        case "before":
            return beginning, begin
        case "after":
            return end, tomorrow
        case "since":
            return begin, tomorrow
        case "until":
            return beginning, end
        case _:
            return begin, end


def _beside(day: date, length: str, step: int) -> _Days:
    """The day, week, weekend or month that ends (-1) or begins (1) at a day."""
    if length == "weekend":
        return _weekend(_monday(day) - (step < 0) * _WEEK)
    other = day + step * timedelta(days=_UNIT_DAYS[length])
    return min(day, other), max(day, other)


def _at(day: date, hour: int, now: datetime) -> datetime:
    # Put together from date and hour, not counted in seconds: a day may have 23 or 25 hours.
    return datetime.combine(day + timedelta(days=hour // 24), time(hour % 24), tzinfo=now.tzinfo)


def _join_ranges(text: str, found: Iterable[_Named]) -> list[_Named]:
    """The same with "between one and another" as one stretch."""
    joined: list[_Named] = []
    for named in found:
        last = joined[-1] if joined else None
        opening = _opening_before(text, last) if last else None
        between = named.words.part("range_to")
        if last and opening and between and between.fullmatch(text, last.stop, named.start):
            begin = _not_after(last.begin, named.begin)
            joined[-1] = named._replace(start=opening.start(), begin=begin)
        else:
            joined.append(named)
    return joined


def _opening_before(text: str, named: _Named) -> re.Match[str] | None:
    opening = named.words.part("range_from")
    return opening.search(text, max(0, named.start - 20), named.start) if opening else None


def _not_after(begin: datetime, end: datetime) -> datetime:
    """The begin of "3 May to 7 June 2024": its year is that of the end, or the one before."""
    if begin < end:
        return begin
    begin = begin.replace(year=end.year, day=min(begin.day, 28 if begin.month == 2 else 31))
    return begin if begin < end else begin.replace(year=end.year - 1)


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
    if first is None:
        return None
    last = _date(first.year, month, int(said.group("to"))) if said.group("to") else first
    return (first, last + _DAY) if last and last >= first else None


def _is_verb(said: _Said) -> bool:
    """Whether "may 20 users" and "20 may enter" speak of no day."""
    name, match = said.group("month"), said.match
    if not said.words.is_in("month_verbs", name) or said.group("year") or said.group("nth"):
        return False
    if said.group("on") or not re.match(r"\s+\w", match.string[match.end() :]):
        return False
    return name.islower() or match.start("month") == 0


def _month_and_year(said: _Said) -> _Days | None:
    month = said.number("months", "month")
    return _month_of(date(int(said.group("year")), month, 1)) if month else None


def _month_near(said: _Said) -> _Days | None:
    name, step = said.group("month"), said.number("steps", "which")
    month = said.number("months", "month")
    if month is None or step is None:
        return None
    if step == 0 and name.islower() and said.words.is_in("month_verbs", name):  # "this may be"
        return None
    year = said.today.year
    if step < 0 and month >= said.today.month:
        year -= 1
    if step > 0 and month <= said.today.month:
        year += 1
    return _month_of(date(year, month, 1))


def _month_alone(said: _Said) -> _Days | None:
    name, month = said.group("month"), said.number("months", "month")
    is_plain = said.words.is_in("plain_months", name)
    if month is None or not (is_plain or said.group("prep") or said.group("turn")):
        return None
    if said.words.is_in("doubtful_months", name) and name.islower() and not said.group("prep"):
        return None
    return _month_of(date(said.today.year - (month > said.today.month), month, 1))


def _year(said: _Said) -> _Days | None:
    year, counted = int(said.group("year")), said.words.part("counted")
    if counted and counted.match(said.match.string, said.match.end()):  # "in 1999 messages"
        return None
    if year > said.today.year + 1 or not (said.group("prep") or said.group("turn")):
        return None
    return date(year, 1, 1), date(year + 1, 1, 1)


def _weekday(said: _Said) -> _Days | None:
    name, number = said.group("weekday"), said.number("weekdays", "weekday")
    if number is None:
        return None
    is_said = said.group("which") or said.group("on") or said.group("turn")
    is_short = said.words.is_in("short_weekdays", name)
    if is_short and (name.islower() or not is_said):  # "the sun", "he sat"
        return None
    if not (is_said or said.group("part") or said.group("whose")):
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


def _nth(said: _Said) -> _Days | None:
    if not (said.group("on") or said.group("turn")):
        return None
    firsts = (_months_later(said.today.replace(day=1), -back) for back in range(12))
    days = (_date(first.year, first.month, int(said.group("day"))) for first in firsts)
    day = next((day for day in days if day and day <= said.today), None)
    return (day, day + _DAY) if day else None


# Days as seen from today


_UNIT_DAYS = {"day": 1, "week": 7, "month": 31, "year": 365}


def _count_of(said: _Said) -> int:
    written = said.group("count")
    return int(written) if written.isdigit() else said.number("counts", "count") or 0


def _back(today: date, count: int, unit: str) -> date | None:
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


def _so_far(said: _Said) -> _Days | None:
    count = _count_of(said) if said.group("count") else 1
    first = _back(said.today, count, said.meaning("units", "unit"))
    return (first, said.today + _DAY) if first else None


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
            return _weekend(_monday(said.today) + step * _WEEK)


def _the_weekend(said: _Said) -> _Days:
    return _weekend(_monday(said.today) - (said.today.weekday() < 5) * _WEEK)


def _weekend(monday: date) -> _Days:
    return monday + timedelta(days=5), monday + _WEEK


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
    "month-near": _Reader(_month_near, "which", "month"),
    "month-alone": _Reader(_month_alone, "month"),
    "year": _Reader(_year, "year"),
    "nth": _Reader(_nth, "day"),
    "weekday": _Reader(_weekday, "weekday"),
    "near-day": _Reader(_near_day, "near"),
    "near": _Reader(_near, "which", "unit"),
    "the-weekend": _Reader(_the_weekend),
    "so-far": _Reader(_so_far, "unit"),
    "ago": _Reader(_ago, "count", "unit"),
}
DATE_READERS: Mapping[str, frozenset[str]] = {name: one.groups for name, one in _READERS.items()}
"""The groups that the pattern of a date needs, by what reads it."""
