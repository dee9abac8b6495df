"""Answers "what did we decide": the newest decision first, what a later one turned down marked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

from mcp_compaction.core.limits import MOST_TRIED
from mcp_compaction.core.log.decisions import find_decisions, subject_words, words_turned_down
from mcp_compaction.core.text.language import languages_of
from mcp_compaction.core.text.words import lower_words
from mcp_compaction.lexicon.languages import words_in_all
from mcp_compaction.model import Hit


def asks_for_decision(query: str) -> bool:
    """Whether a query wants to know what was settled, rather than all that was said."""
    return not words_in_all("words_of_deciding").isdisjoint(lower_words(query))


def mark_decisions(hits: Sequence[Hit], about: Sequence[str] | None = None) -> tuple[Hit, ...]:
    """The hits with a note on decisions that a later one turned down. Where a subject is asked for,
    decisions on it come first: what stands, the user's and the newest on top, then the others.

    Of several projects none decides for another.
    """
    if len({hit.project for hit in hits}) > 1:
        return tuple(hits)
    said = list(_decisions_of_hits(hits))
    taken_back = _find_taken_back(said)
    standing = {one.hit for number, one in enumerate(said) if number not in taken_back}
    by = {said[old].hit: hits[said[new].hit] for old, new in taken_back.items()}
    noted = [
        _note(hit, by[place]) if place in by and place not in standing else hit
        for place, hit in enumerate(hits)
    ]
    if about is None:
        return tuple(noted)
    covers = [_coverage_of(one.text, " ".join(about)) for one in said]
    for old, new in sorted(taken_back.items()):  # who takes a decision back speaks of the same
        covers[new] = max(covers[new], covers[old])
    ranks: dict[int, tuple[bool, int, bool, int]] = {}
    for number, one in enumerate(said):
        if covers[number]:
            rank = (number not in taken_back, covers[number], one.by == "user", number)
            ranks[one.hit] = max(rank, ranks.get(one.hit, rank))
    first = sorted(ranks, key=lambda place: ranks[place], reverse=True)
    return tuple(noted[place] for place in dict.fromkeys((*first, *range(len(hits)))))


def _note(hit: Hit, by: Hit) -> Hit:
    where = "" if by.session == hit.session else f" in session {by.session}"
    return hit.model_copy(update={"note": f"superseded by {by.ref}{where}"})


class _Statement(NamedTuple):
    """A decision in a hit, and whose it is."""

    hit: int  # the place of its hit
    by: str
    text: str


def _decisions_of_hits(hits: Sequence[Hit]) -> Iterator[_Statement]:
    """The decisions of the messages among the hits, from the oldest to the newest."""
    for place in sorted(range(len(hits)), key=lambda place: _time_of(hits[place])):
        hit = hits[place]
        if hit.role in ("user", "assistant"):
            for text in islice(find_decisions(hit.text, hit.role == "user"), MOST_TRIED):
                yield _Statement(place, hit.role, text)


def _time_of(hit: Hit) -> tuple[datetime, str, int]:
    at = hit.at or datetime.min.replace(tzinfo=UTC)
    number = int(hit.ref[1:]) if hit.ref[1:].isdecimal() else 0
    return at if at.tzinfo else at.replace(tzinfo=UTC), hit.session, number


def _find_taken_back(said: Sequence[_Statement]) -> dict[int, int]:
    """The number of each decision that was turned down, with that of the one that did so; an
    assistant turns down nothing that a user chose."""
    found: dict[int, int] = {}
    for newer, one in enumerate(said):
        for older, other in enumerate(said[:newer]):
            may = one.by == "user" or other.by != "user"
            if may and older not in found and _takes_back(one.text, other.text):
                found[older] = newer
    return found


class _Choice(NamedTuple):
    """The words of a decision, and those among them of what it turns down."""

    words: frozenset[str]
    refused: frozenset[str]


@lru_cache(maxsize=8_192)
def _read(text: str) -> _Choice:
    said = text.replace("’", "'").replace("`", "")
    languages = languages_of(said)
    refused = subject_words(" ".join(words_turned_down(said)), languages)
    return _Choice(subject_words(said, languages), refused)


def _takes_back(newer: str, older: str) -> bool:
    """Whether a later decision turns down what an earlier one took; a missed one costs far less
    than a false one."""
    refused, old = _read(newer).refused, _read(older)
    return bool(refused) and refused <= old.words - old.refused


def _coverage_of(decision: str, about: str) -> int:
    """How much of a subject a decision speaks of; 0 where it is beside it."""
    languages = languages_of(decision)  # the stems of the subject are those of the decision
    wanted = subject_words(about, languages)
    return len(wanted & _read(decision).words) if wanted else 1
