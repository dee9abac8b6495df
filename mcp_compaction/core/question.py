"""Reads a question to the archive: the words to look for, the rows to look at, days and names."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo

from mcp_compaction.core.when import Stretch, named_days
from mcp_compaction.errors import InputError
from mcp_compaction.model import Value

_MOST_TERMS = 64
_MOST_CHARS = 20_000  # of a question; nobody reads more into one
_MOST_LETTERS = 1_000  # of a term
_MOST_DATED = 1_000  # characters in which dates are looked for
_QUALIFIER = re.compile(r"\b(role|tool|since|until):(\S+)")
_WORD = re.compile(r"[^\s\"'`’()\[\]{}<>,;!?，。；：！？、（）「」『』“”]+")
_ROLES = ("user", "assistant", "tool", "system")

# Words that stand in every second message and tell none apart.
_STOP = frozenset(
    re.findall(
        r"\w+",
        """a about above after again all am an and any are as at be because been before being
        below between both but by can could d did do does doing don down during each few for from
        further had has have having he her here hers herself him himself his how i if in into is
        isn it its itself just let ll m me more most my myself no nor not of off on once only or
        other ought our ours ourselves out over own re s same she should so some such t than that
        the their theirs them themselves then there these they this those through to too under
        until up ve very was wasn we were what when where which while who whom why will with won
        would you your yours yourself yourselves""",
    )
)


class Question(Value):
    """A query, read: the words to look for and which rows to look at."""

    text: str = ""
    terms: tuple[str, ...]
    role: str | None = None
    tool: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    days: tuple[Stretch, ...] = ()  # that it names
    named: tuple[str, ...] = ()  # words with a capital, which may be somebody's name


def read_query(text: str, now: datetime | None = None) -> Question:
    """The words of a query, with its qualifiers taken out; days are read in the zone of `now`."""
    found = dict(_QUALIFIER.findall(text[:_MOST_CHARS]))
    plain = words_alone(_QUALIFIER.sub(" ", text[:_MOST_CHARS]))
    role = found.get("role")
    if role is not None and role not in _ROLES:
        raise InputError(f"no role {role!r}; use one of {', '.join(_ROLES)}.")
    zone = (now.tzinfo if now else None) or UTC
    return plain.model_copy(
        update={
            "role": role,
            "tool": found.get("tool"),
            "since": _day(found.get("since"), zone),
            "until": _end_of(found.get("until"), zone),
            "days": named_days(plain.text[:_MOST_DATED], now) if now else (),
        }
    )


def words_alone(text: str) -> Question:
    """The words of a text that is looked for as it stands: nothing in it narrows the search."""
    text = text[:_MOST_CHARS]
    words = [w.strip(".,:;")[:_MOST_LETTERS] for w in _WORD.findall(text)]
    terms = [w for w in words if w and any(c.isalnum() for c in w)]
    telling = [w for w in terms if w.lower() not in _STOP]
    return Question(
        text=text,
        terms=tuple(dict.fromkeys(telling or terms))[:_MOST_TERMS],
        named=tuple(dict.fromkeys(w.lower() for w in telling if w[0].isupper())),
    )


def _end_of(text: str | None, zone: tzinfo) -> datetime | None:
    """A moment, or the end of a day that was named without a time."""
    moment = _day(text, zone)
    named_day = text is not None and len(text) <= len("2026-11-01")
    return moment + timedelta(days=1) if moment is not None and named_day else moment


def _day(text: str | None, zone: tzinfo) -> datetime | None:
    if text is None:
        return None
    try:
        day = datetime.fromisoformat(text)
    except ValueError:
        day = None
    # A year at either end of the calendar has no UTC, or no day after it.
    if day is None or not 1 < day.year < 9999:
        raise InputError(f"{text[:40]!r} is no date; write it as 2026-11-01.")
    return day if day.tzinfo else day.replace(tzinfo=zone)
