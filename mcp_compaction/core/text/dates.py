"""Reads the dates a question names: which days, and in which words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import date, datetime, time, timedelta
from typing import NamedTuple

from mcp_compaction.core.text.patterns import pattern_of
from mcp_compaction.core.text.words import one_line

MONTH = (
    r"(?:january|february|march|april|may|june|july|august|september|october|november|december"
    r"|(?:jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec)\b)"
)
"""A month by its name, as a pattern."""


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
    for pattern, read in _TABLE:
        for match in pattern.finditer(text):
            if any(match.start() < other.stop and other.start < match.end() for other in found):
                continue
            days = read(match, now.date())
            if days is not None:
                found.append(_named(match, days, now))
    joined = _joined(text, sorted(found))
    return tuple(
        Stretch(begin, end, text[start:stop]) for start, stop, begin, end in joined if begin < end
    )


_Days = tuple[date, date]  # the first day and the one after the last
_Read = Callable[[re.Match[str], date], _Days | None]


class _Named(NamedTuple):
    start: int
    stop: int
    begin: datetime
    end: datetime


# From when to when a part of a day lasts, in hours; a night ends on the next day.
_PARTS = {"morning": (0, 12), "afternoon": (12, 18), "evening": (17, 24), "night": (18, 30)}
_LONG_AGO = date(1970, 1, 1)
_DAY, _WEEK = timedelta(days=1), timedelta(weeks=1)


def _named(match: re.Match[str], days: _Days, now: datetime) -> _Named:
    groups = match.groupdict()
    first, after = days
    if groups.get("week"):
        first = _monday(first)
        after = first + _WEEK
    part = (groups.get("part") or "").lower()
    if part:
        from_hour, to_hour = _PARTS[part]
        begin, end = _at(first, from_hour, now), _at(first, to_hour, now)
    else:
        begin, end = _at(first, 0, now), _at(after, 0, now)
    begin, end = _apply_preposition(groups, begin, end, now)
    return _Named(match.start(), match.end(), begin, end)


def _apply_preposition(
    groups: dict[str, str | None], begin: datetime, end: datetime, now: datetime
) -> tuple[datetime, datetime]:
    """The stretch that "before", "after", "since" or "until" makes of a named one."""
    beginning, tomorrow = _at(_LONG_AGO, 0, now), _at(now.date() + _DAY, 0, now)
    length = (groups["length"] or "").lower()
    match (groups["turn"] or "").lower():
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
        case "until" | "till":
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


_FROM = pattern_of(r"\b(?:between|from)\s+\Z", re.I)
_TO = pattern_of(r"\s*(?:and|to|until|till|through|[-–])\s+", re.I)


def _joined(text: str, found: Iterable[_Named]) -> list[_Named]:
    """The same with "between one and another" as one stretch."""
    joined: list[_Named] = []
    for named in found:
        last = joined[-1] if joined else None
        opening = _FROM.search(text, max(0, last.start - 20), last.start) if last else None
        if last and opening and _TO.fullmatch(text, last.stop, named.start):
            begin = _not_after(last.begin, named.begin)
            joined[-1] = _Named(opening.start(), named.stop, begin, named.end)
        else:
            joined.append(named)
    return joined


def _not_after(begin: datetime, end: datetime) -> datetime:
    """The begin of "3 May to 7 June 2024": its year is that of the end, or the one before."""
    if begin < end:
        return begin
    begin = begin.replace(year=end.year, day=min(begin.day, 28 if begin.month == 2 else 31))
    return begin if begin < end else begin.replace(year=end.year - 1)


# Days and months by name


_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
# Names that are nothing else, neither a word nor a person.
_PLAIN_MONTHS = frozenset(
    ("january", "february", "july", "september", "october", "november", "december")
)
_VERBS = frozenset(("may", "march", "mar"))


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


def _month_number(match: re.Match[str]) -> int:
    return _MONTHS.index(match["month"].lower()[:3]) + 1


def _iso_day(match: re.Match[str], today: date) -> _Days | None:
    del today
    day = _date(int(match["year"]), int(match["number"]), int(match["day"]))
    return (day, day + _DAY) if day else None


def _iso_month(match: re.Match[str], today: date) -> _Days | None:
    del today
    first = _date(int(match["year"]), int(match["number"]), 1)
    return _month_of(first) if first else None


def _day_of_month(match: re.Match[str], today: date) -> _Days | None:
    if _is_verb(match):
        return None
    month, number = _month_number(match), int(match["day"])
    if match["year"]:
        first = _date(int(match["year"]), month, number)
    else:  # nine years back, since 29 February is rare
        years = range(today.year, today.year - 9, -1)
        days = (_date(year, month, number) for year in years)
        first = next((day for day in days if day and day <= today), None)
    if first is None:
        return None
    last = _date(first.year, month, int(match["to"])) if match["to"] else first
    return (first, last + _DAY) if last and last >= first else None


def _is_verb(match: re.Match[str]) -> bool:
    """Whether "may 20 users" and "20 may enter" speak of no day."""
    name = match["month"]
    if name.lower() not in _VERBS or match["year"] or match["nth"]:
        return False
    if re.match(r"on\s", match[0], re.I) or not re.match(r"\s+\w", match.string[match.end() :]):
        return False
    return name.islower() or match.start("month") == 0


def _month_and_year(match: re.Match[str], today: date) -> _Days | None:
    del today
    return _month_of(date(int(match["year"]), _month_number(match), 1))


def _month_near(match: re.Match[str], today: date) -> _Days | None:
    number, which = _month_number(match), match["which"].lower()
    if match["month"] in _VERBS and which == "this":  # "this may be"
        return None
    year = today.year
    if which == "last" and number >= today.month:
        year -= 1
    if which == "next" and number <= today.month:
        year += 1
    return _month_of(date(year, number, 1))


def _month_alone(match: re.Match[str], today: date) -> _Days | None:
    name = match["month"]
    is_named = name.lower() in _PLAIN_MONTHS or match["prep"] or match["turn"]
    if not is_named or (name == "may" and not match["prep"]):
        return None
    number = _month_number(match)
    return _month_of(date(today.year - (number > today.month), number, 1))


_COUNTED = pattern_of(
    r"\s+(?!(?:was|has|this|does|his|its|us|is|as|always|perhaps|besides)\b)"
    r"(?:[a-z]+s|[kmg]b|ms|px|people)\b",
    re.I,
)


def _year(match: re.Match[str], today: date) -> _Days | None:
    year = int(match["year"])
    counts = _COUNTED.match(match.string, match.end())  # "in 1999 messages"
    if counts or year > today.year + 1 or not (match["prep"] or match["turn"]):
        return None
    return date(year, 1, 1), date(year + 1, 1, 1)


def _weekday(match: re.Match[str], today: date) -> _Days | None:
    name = match["weekday"]
    is_said = match["which"] or match["on"] or match["turn"]
    if len(name) < 6 and (name.islower() or not is_said):  # "the sun", "he sat"
        return None
    if not (is_said or match["part"] or match["whose"]):
        return None
    number = _WEEKDAYS.index(name.lower()[:3])
    ago = (today.weekday() - number) % 7
    match (match["which"] or "").lower():
        case "last" | "past" | "previous":
            day = today - timedelta(days=ago or 7)
        case "this":
            day = _monday(today) + timedelta(days=number)
        case "next" | "coming":
            day = today + timedelta(days=7 - ago)
        case _:
            day = today - timedelta(days=ago)
    return day, day + _DAY


def _nth(match: re.Match[str], today: date) -> _Days | None:
    if not (match["on"] or match["turn"]):
        return None
    firsts = (_months_later(today.replace(day=1), -back) for back in range(12))
    days = (_date(first.year, first.month, int(match["day"])) for first in firsts)
    day = next((day for day in days if day and day <= today), None)
    return (day, day + _DAY) if day else None


# Days as seen from today


_COUNTS = (
    "zero", "one", "two", "three", "four", "five", "six",
    "seven", "eight", "nine", "ten", "eleven", "twelve",
)  # fmt: skip
_UNIT_DAYS = {"day": 1, "week": 7, "month": 31, "year": 365}


def _count(words: str) -> int:
    words = one_line(words.lower())
    if words.isdigit():
        return int(words)
    if words.startswith("a couple"):
        return 2
    return _COUNTS.index(words) if words in _COUNTS else 1


def _back(today: date, count: int, unit: str) -> date | None:
    months = {"month": count, "year": 12 * count}.get(unit)
    if months is None:
        return today - timedelta(days=count * _UNIT_DAYS[unit])
    return _months_later(today, -months) if months < 12 * 100 else None


def _ago(match: re.Match[str], today: date) -> _Days | None:
    """A day, or a week, month or year around that day: "two weeks ago" names no single one."""
    unit = match["unit"].lower()
    middle = _back(today, _count(match["count"]), unit)
    if middle is None:
        return None
    length = _UNIT_DAYS[unit]
    first = middle - timedelta(days=length // 2)
    return first, first + timedelta(days=length)


def _so_far(match: re.Match[str], today: date) -> _Days | None:
    first = _back(today, _count(match["count"] or "one"), match["unit"].lower())
    return (first, today + _DAY) if first else None


def _near_day(match: re.Match[str], today: date) -> _Days:
    said = one_line(match[0].lower())
    steps = {"yesterday": -1, "last": -1, "tomorrow": 1}
    day = today + timedelta(days=next((n for word, n in steps.items() if word in said), 0))
    return day, day + _DAY


def _near(match: re.Match[str], today: date) -> _Days:
    steps = {"last": -1, "previous": -1, "this": 0, "next": 1}
    step = steps[match["which"].lower()]
    match match["unit"].lower():
        case "week":
            first = _monday(today) + step * _WEEK
            return first, first + _WEEK
        case "month":
            return _month_of(_months_later(today.replace(day=1), step))
        case "year":
            return date(today.year + step, 1, 1), date(today.year + step + 1, 1, 1)
        case _:
            return _weekend(_monday(today) + step * _WEEK)


def _week_before_last(match: re.Match[str], today: date) -> _Days:
    del match
    first = _monday(today) - 2 * _WEEK
    return first, first + _WEEK


def _the_weekend(match: re.Match[str], today: date) -> _Days:
    del match
    return _weekend(_monday(today) - (today.weekday() < 5) * _WEEK)


def _weekend(monday: date) -> _Days:
    return monday + timedelta(days=5), monday + _WEEK


# The expressions, the longer ones first


_TURN = (
    r"(?:(?:\b(?:(?:on|in|over|during) )?(?:the )?(?P<length>day|week|weekend|month) "
    r"(?=before|after))?\b(?P<turn>since|after|before|until|till) (?:the )?)?"
)
_BEFORE_NUMBER = r"(?<![\w.,:/#$€£+-])"
_MONTH = rf"\b(?P<month>{MONTH})"
_DAY_NAME = (
    r"(?:mon|tues|wednes|thurs|fri|satur|sun)day\b|(?:mon|tues?|wed|thu(?:rs?)?|fri|sat|sun)\b"
)
_WEEK_OF = (
    r"(?P<week>\b(?:the )?week (?:of|starting|beginning) )?"
    rf"(?:\bon )?(?:\b(?:{_DAY_NAME}),? )?"
)
_NTH = r"(?:st|nd|rd|th)"
_NUMBER_OF_DAY = (
    rf"(?P<day>\d{{1,2}})(?P<nth>{_NTH})?(?:\s*(?:-|–|\bto\b)\s*(?P<to>\d{{1,2}}){_NTH}?)?"
)
_YEAR = r"(?P<year>(?:19|20)\d\d)"
_PART = r"(?: (?P<part>morning|afternoon|evening|night)\b)?"
_COUNT = rf"(?P<count>an?|a couple(?: of)?|\d{{1,3}}|{'|'.join(_COUNTS)})"
_UNIT = r"(?P<unit>day|week|month|year)"
_NO_MORE = r"(?![\w%]|[.,:/-]\d)"


def _table(*rows: tuple[str, _Read]) -> tuple[tuple[re.Pattern[str], _Read], ...]:
    # ASCII, so that no letter of another alphabet passes for one of a name.
    return tuple(
        (pattern_of((_TURN + row).replace(" ", r"\s+"), re.I | re.A), read) for row, read in rows
    )


_TABLE = _table(
    (
        rf"{_WEEK_OF}{_BEFORE_NUMBER}(?P<year>\d{{4}})-(?P<number>\d\d)-(?P<day>\d\d)"
        r"(?:T[\d:.]+Z?)?(?![\w/-]|\.\w)",
        _iso_day,
    ),
    (
        rf"{_BEFORE_NUMBER}{_YEAR}-(?P<number>0[1-9]|1[0-2])(?![\w/-]|\.\w)",
        _iso_month,
    ),
    (
        rf"{_WEEK_OF}(?:the )?{_BEFORE_NUMBER}{_NUMBER_OF_DAY} (?:of )?{_MONTH}\b\.?(?:,? {_YEAR})?"
        + _NO_MORE,
        _day_of_month,
    ),
    (
        rf"{_WEEK_OF}{_MONTH}\b\.? (?:the )?{_NUMBER_OF_DAY}(?:,? {_YEAR})?{_NO_MORE}",
        _day_of_month,
    ),
    (
        rf"(?:\b(?:in|during) )?(?:\b(?:early|late|mid)[ -])?{_MONTH}\b\.?,? (?:of )?{_YEAR}"
        + _NO_MORE,
        _month_and_year,
    ),
    (rf"\b(?P<which>last|this|next) {_MONTH}\b", _month_near),
    (
        rf"(?:\b(?P<prep>in|during|throughout) )?(?:\b(?:early|late|mid)[ -])?{_MONTH}\b",
        _month_alone,
    ),
    (
        r"(?:\b(?P<prep>in|during|throughout|(?:in )?(?:the )?year) )?"
        rf"{_BEFORE_NUMBER}{_YEAR}(?![\w%/-]|[.,:]\d)",
        _year,
    ),
    (
        rf"(?:\b(?P<on>on) )?(?:\b(?:{_DAY_NAME}),? )?(?:\bthe )?{_BEFORE_NUMBER}"
        rf"(?P<day>\d{{1,2}}){_NTH}(?=\s*(?:[?.!,;)]|\Z))",
        _nth,
    ),
    (
        rf"(?:\b(?P<which>last|this|next|past|previous|coming) |\b(?P<on>on|over|from) )?"
        rf"\b(?P<weekday>{_DAY_NAME})(?!\.\w)(?P<whose>['’]s)?{_PART}",
        _weekday,
    ),
    (
        rf"\b(?:yesterday|today|tomorrow)\b(?:['’]s)?{_PART}",
        _near_day,
    ),
    (r"\bthis (?P<part>morning|afternoon|evening)\b", _near_day),
    (r"\b(?:last |to)(?P<part>night)\b", _near_day),
    (r"\b(?:the )?week before last\b", _week_before_last),
    (r"\b(?P<which>last|previous|this|next) (?P<unit>week|weekend|month|year)\b", _near),
    (r"\b(?:on|over|at|during) the weekend\b", _the_weekend),
    (rf"\b(?:the )?(?:last|past) {_COUNT} {_UNIT}s\b", _so_far),
    (rf"\b(?:the )?past (?P<count>){_UNIT}\b", _so_far),
    (rf"(?<!half\s)\b{_COUNT} {_UNIT}s? ago\b", _ago),
)
