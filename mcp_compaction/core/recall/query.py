"""Reads a question to the archive: the words to look for, the rows to look at, days and names."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from mcp_compaction.core.limits import (
    LONGEST_ANSWER,
    LONGEST_LINE,
    LONGEST_SENTENCE,
    LONGEST_TEXT,
    MOST_LOOKED_AT,
    SHORTEST_PREVIEW,
)
from mcp_compaction.core.text.dates import Stretch, named_days
from mcp_compaction.core.text.language import main_language
from mcp_compaction.core.text.patterns import pattern_of
from mcp_compaction.core.text.words import stop_words
from mcp_compaction.errors import InputError
from mcp_compaction.lexicon.languages import read_lexicon
from mcp_compaction.model import Value

MOST_TERMS = MOST_LOOKED_AT  # of a query; more are not looked for
_QUALIFIER = pattern_of(r"\b(role|tool|since|until):(\S+)")
_WORD = pattern_of(
    r"\d{1,3}(?:,\d{3})+(?:\.\d+)?(?!\w|,\d)"  # a number with its commas
    r"|[^\s\"'`’()\[\]{}<>,;!?，。；：！？、（）「」『』“”]+"
)
_SHORTENED = pattern_of(r"\b\w+n['’]t\b", re.I)  # "didn't" tells as little as "did not"
_ROLES = ("user", "assistant", "tool", "system")

_NO_TIME = datetime(2000, 1, 1, tzinfo=UTC)  # used where the time of asking is unknown


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

    @property
    def is_narrow(self) -> bool:
        """Whether the question says which rows to look at, in whatever words."""
        return bool(self.role or self.tool or self.since or self.until or self.days)


def read_query(text: str, now: datetime | None = None) -> Question:
    """The words of a query, with its qualifiers taken out; days are read in the zone of `now`."""
    found = dict(_QUALIFIER.findall(text[:LONGEST_TEXT]))
    plain = question_of_words(_QUALIFIER.sub(" ", text[:LONGEST_TEXT]))
    days = named_days(plain.text[:LONGEST_SENTENCE], now) if now else ()
    role = found.get("role")
    if role is not None and role not in _ROLES:
        raise InputError(f"no role {role!r}; use one of {', '.join(_ROLES)}.")
    at = now or _NO_TIME
    since, until = (_read_stretch(found.get(name), at) for name in ("since", "until"))
    return plain.model_copy(
        update={
            "role": role,
            "tool": found.get("tool"),
            "since": since and since.begin,
            "until": until and until.end,
            "days": days,
            "terms": _words_beside_days(plain, days),
        }
    )


def question_of_words(text: str) -> Question:
    """The words of a text that is looked for as it stands: nothing in it narrows the search."""
    text = text[:LONGEST_TEXT]
    terms = terms_of(text)
    empty = _empty_words(text)
    telling = (w for w in terms if w.lower() not in empty)
    named = tuple(dict.fromkeys(w.lower() for w in telling if w[0].isupper()))
    return Question(text=text, terms=terms[:MOST_TERMS], named=named)


def terms_of(text: str) -> tuple[str, ...]:
    """The different words of a text that tell something; where none does, all of them."""
    found = _WORD.findall(_SHORTENED.sub(" ", text[:LONGEST_TEXT]))
    words = [w.strip(".,:;")[:LONGEST_ANSWER] for w in found]
    terms = [w for w in words if w and any(c.isalnum() for c in w)]
    if len(terms) == 1:
        return (terms[0],)
    empty = _empty_words(text)
    telling = [w for w in terms if w.lower() not in empty]
    return tuple(dict.fromkeys(telling or terms))


def _empty_words(text: str) -> frozenset[str]:
    """The words that stand in every second message of a text's language and tell none apart."""
    return stop_words(main_language(text))


def names_of_day(day: Stretch) -> tuple[str, ...]:
    """The ways a text may name a day: in the words of the question, by its number, in English."""
    begin = day.begin
    if day.end - begin > timedelta(days=1):
        return (day.words,)
    month, short, number = f"{begin:%B}", f"{begin:%b}", f"{begin.day}"
    spelled = (f"{name} {number}" for name in (month, short))
    turned = (f"{number} {name}" for name in (month, short))
    is_number = any(letter.isdigit() for letter in day.words)  # "last Thursday" moves on
    return tuple(
        dict.fromkeys(
            (*((day.words,) if is_number else ()), f"{begin:%Y-%m-%d}", *spelled, *turned)
        )
    )


def shorten_query(text: str) -> str:
    """A query as an answer repeats it, cut short: whoever asked knows how it goes on."""
    return text if len(text) <= SHORTEST_PREVIEW else f"{text[:SHORTEST_PREVIEW]}…"


def _words_beside_days(plain: Question, days: Iterable[Stretch]) -> tuple[str, ...]:
    """The words that do not name a day; none where only stop words are left beside one."""
    in_days = {word for day in days for word in question_of_words(day.words).terms}
    beside = tuple(term for term in plain.terms if term not in in_days)
    words = read_lexicon(main_language(plain.text)).words("saying") | _empty_words(plain.text)
    only_days = all(term.lower() in words for term in beside)
    return () if days and only_days else beside


def _read_stretch(text: str | None, now: datetime) -> Stretch | None:
    """The moment, day or longer time that a qualifier names."""
    if text is None:
        return None
    text = text[:LONGEST_LINE]
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        named = named_days(text.replace("_", " "), now)
        if len(named) == 1:
            return named[0]
    else:
        # A year at either end of the calendar has no UTC, or no day after it.
        if 1 < moment.year < 9999:
            begin = moment if moment.tzinfo else moment.replace(tzinfo=now.tzinfo)
            is_day = len(text) <= len("2026-11-01")
            return Stretch(begin, begin + timedelta(days=1) if is_day else begin, text)
    raise InputError(f"{text[:40]!r} is no date; write it as 2026-11-01 or yesterday.")
