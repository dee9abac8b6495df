"""Reads a question to the archive, cuts messages into passages, and chooses what answers it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from mcp_compaction.core.parts import Count, words_of
from mcp_compaction.errors import InputError
from mcp_compaction.model import Hit, Part, Role, Spoken, ToolResult, Value

_MOST_CHARS = 600  # about eighty words
_MOST_TERMS = 64
_QUALIFIER = re.compile(r"\b(role|tool|since|until):(\S+)")
_WORD = re.compile(r"[^\s\"'`()\[\]{}<>,;!?]+")
_USER_BOOST = 1.3  # what the user said counts more
# What the next and the second next message add; with them LoCoMo's R@5 goes from .55 to .63.
_NEAR = (0.5, 0.3)
_ROLES = ("user", "assistant", "tool", "system")

# Words that stand in every second message and tell none apart.
_STOP = frozenset(
    re.findall(
        r"\w+",
        """a an and are as at be but by can could did do does for from had has have he her his how i
        if in is it its me my not of on or our she should so that the their them then there they
        this to was we were what when where which who why will with would you your""",
    )
)


class Question(Value):
    """A query, read: the words to look for and which rows to look at."""

    terms: tuple[str, ...]
    role: str | None = None
    tool: str | None = None
    since: datetime | None = None
    until: datetime | None = None


class Answered(Value):
    """The passages that fit into an answer, and how many more there are."""

    hits: tuple[Hit, ...]
    more: int


def read_query(text: str) -> Question:
    """The words of a query, with its qualifiers taken out."""
    found = dict(_QUALIFIER.findall(text))
    words = [w.strip(".,:;") for w in _WORD.findall(_QUALIFIER.sub(" ", text))]
    terms = [w for w in words if w and any(c.isalnum() for c in w)]
    telling = [w for w in terms if w.lower() not in _STOP]
    role = found.get("role")
    if role is not None and role not in _ROLES:
        raise InputError(f"no role {role!r}; use one of {', '.join(_ROLES)}.")
    return Question(
        terms=tuple(dict.fromkeys(telling or terms))[:_MOST_TERMS],
        role=role,
        tool=found.get("tool"),
        since=_day(found.get("since")),
        until=_end_of(found.get("until")),
    )


def passages(role: Role, parts: Iterable[Part]) -> tuple[Spoken, ...]:
    """What a search finds a message by: its words in pieces of about eighty, and whose they are."""
    return tuple(
        Spoken("tool" if isinstance(part, ToolResult) else role, piece)
        for part in parts
        for piece in _pieces(words_of(part))
    )


def rank(hits: Sequence[Hit]) -> tuple[Hit, ...]:
    """The best first: by score and what stands around it, with what the user said before the rest.

    An answer seldom repeats the words of its question: a hit among hits is worth more than alone.
    """
    best: dict[tuple[str, str], float] = {}  # of each message
    for hit in hits:
        best[hit.session, hit.ref] = max(hit.score, best.get((hit.session, hit.ref), 0.0))
    return tuple(sorted(hits, key=lambda hit: -_weight(hit) * (hit.score + _around(hit, best))))


def _around(hit: Hit, best: Mapping[tuple[str, str], float]) -> float:
    if not hit.ref.startswith("m"):
        return 0.0
    number = int(hit.ref[1:])
    return sum(
        share * best.get((hit.session, f"m{near}"), 0.0)
        for distance, share in enumerate(_NEAR, 1)
        for near in (number - distance, number + distance)
    )


def choose(hits: Sequence[Hit], max_tokens: int, count: Count, skip: int = 0) -> Answered:
    """As many passages as the answer holds, after those already given; at least one."""
    chosen: list[Hit] = []
    used = 0
    left = hits[skip:]
    for hit in left:
        cost = count(hit.text) + 12
        if chosen and used + cost > max_tokens:
            break
        chosen.append(hit)
        used += cost
    return Answered(hits=tuple(chosen), more=len(left) - len(chosen))


def _weight(hit: Hit) -> float:
    return _USER_BOOST if hit.role == "user" else 1.0


def _pieces(text: str) -> Iterable[str]:
    start = 0
    while len(text) - start > _MOST_CHARS:
        end = _joint(text, start, start + _MOST_CHARS)
        if text[start:end].strip():
            yield text[start:end].strip()
        start = end
    if text[start:].strip():
        yield text[start:].strip()


def _joint(text: str, start: int, end: int) -> int:
    """Where to cut: after a line, a sentence or a word, in the second half of the piece."""
    middle = (start + end) // 2
    for joint in ("\n", ". ", " "):
        position = text.rfind(joint, middle, end)
        if position > 0:
            return position + len(joint)
    return end


def _end_of(text: str | None) -> datetime | None:
    """A moment, or the end of a day that was named without a time."""
    moment = _day(text)
    named_day = text is not None and len(text) <= len("2026-11-01")
    return moment + timedelta(days=1) if moment is not None and named_day else moment


def _day(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        day = datetime.fromisoformat(text)
    except ValueError:
        raise InputError(f"{text!r} is no date; write it as 2026-11-01.") from None
    return day if day.tzinfo else day.replace(tzinfo=UTC)
