"""Answers "what did we decide": the newest decision first, what a later one took back marked."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

from mcp_compaction.core.digest.parse import parse_digest
from mcp_compaction.core.limits import MOST_TRIED
from mcp_compaction.core.log.decisions import (
    find_decisions,
    is_acceptance,
    subject_words,
    turns_back,
    turns_back_only,
    words_turned_down,
)
from mcp_compaction.core.text.language import languages_of
from mcp_compaction.core.text.words import fold, lower_words, one_line
from mcp_compaction.lexicon.languages import words_in_all
from mcp_compaction.model import Hit

_NEAR = 6  # messages; "scrap that" means what was just said


def asks_for_decision(query: str) -> bool:
    """Whether a query wants to know what was settled, rather than all that was said."""
    return not words_in_all("words_of_deciding").isdisjoint(lower_words(query))


def decisions_first(hits: Sequence[Hit], about: Sequence[str]) -> tuple[Hit, ...]:
    """Decisions on a subject before the other hits: what stands, the newest on top, then what a
    later one took back, with a note that says which."""
    said = list(_decisions_of_hits(hits))
    taken_back = _find_taken_back(said, hits)
    covers = _measure_coverage(said, taken_back, " ".join(about), hits)
    standing: dict[int, tuple[float, bool, int]] = {}
    replaced: dict[int, int] = {}  # the newest of its decisions
    for number, one in enumerate(said):
        if covers[number] and number not in taken_back:
            weight = (covers[number], one.by == "user", number)
            standing[one.hit] = max(weight, standing.get(one.hit, weight))
        elif covers[number]:
            replaced[one.hit] = number
    first = sorted(standing, key=lambda hit: standing[hit], reverse=True)
    then = sorted(replaced.keys() - standing.keys(), key=lambda hit: replaced[hit], reverse=True)
    found = standing.keys() | replaced.keys()
    return (
        *(hits[place] for place in first),
        *(_note(hits[place], hits[said[taken_back[replaced[place]]].hit]) for place in then),
        *(hit for place, hit in enumerate(hits) if place not in found),
    )


def chosen_words(hits: Sequence[Hit]) -> tuple[str, ...]:
    """The words of what was decided: whatever took it back may name nothing else."""
    words = (w for one in _decisions_of_hits(hits) for w in sorted(_read(one.text).words))
    return tuple(dict.fromkeys(words))


def standing_decisions(texts: Sequence[str]) -> list[int]:
    """The places of the decisions, from the oldest to the newest, that no later one took back."""
    return [
        place
        for place, older in enumerate(texts)
        if not any(_takes_back(newer, older) for newer in texts[place + 1 :])
        and not turns_back_only(older)
        and not any(turns_back_only(newer) for newer in texts[place + 1 : place + 2])
    ]


def _note(hit: Hit, by: Hit) -> Hit:
    where = "" if by.session == hit.session else f" in session {by.session}"
    return hit.model_copy(update={"note": f"superseded by {by.ref}{where}"})


# What the hits decide


class _Statement(NamedTuple):
    """A decision in a hit, and whose it is: a user's, an assistant's, or one of a digest."""

    hit: int  # the place of its hit
    by: str
    text: str


def _decisions_of_hits(hits: Sequence[Hit]) -> Iterator[_Statement]:
    """The decisions of the hits, from the oldest to the newest; a yes makes a user's of what an
    assistant said right before it."""
    accepted = {
        (hit.session, _number_of(hit) - back)
        for hit in hits
        if hit.role == "user" and is_acceptance(hit.text)
        for back in (1, 2)
    }
    for place in _places_in_time(hits):
        hit = hits[place]
        is_accepted = hit.role == "assistant" and (hit.session, _number_of(hit)) in accepted
        by = "user" if is_accepted else hit.role
        for text in islice(_texts_of(hit, is_accepted), MOST_TRIED):
            yield _Statement(place, by, text)


def _texts_of(hit: Hit, is_accepted: bool) -> Sequence[str]:
    match hit.role:
        case "digest":  # it lists the newest first
            draft = parse_digest(re.sub(r"^DECISIONS: ", "DECISIONS\n", hit.text), "archive")
            return tuple(item.text for item in draft.items("DECISIONS"))[::-1]
        case "user" | "assistant" as role:
            found = find_decisions(hit.text, role == "user" or is_accepted)
            return found or ((one_line(hit.text),) if is_accepted else ())
        case _:
            return ()


def _places_in_time(hits: Sequence[Hit]) -> list[int]:
    if all(hit.at is not None for hit in hits):
        return sorted(range(len(hits)), key=lambda n: (_time_of(hits[n]), _number_of(hits[n])))
    return sorted(
        range(len(hits)),
        key=lambda n: (hits[n].session, hits[n].role == "digest", _number_of(hits[n])),
    )


def _time_of(hit: Hit) -> datetime:
    at = hit.at or datetime.min.replace(tzinfo=UTC)
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def _number_of(hit: Hit) -> int:
    return int(hit.ref[1:]) if hit.ref[1:].isdecimal() else 0


# What a later one takes back


def _find_taken_back(said: Sequence[_Statement], hits: Sequence[Hit]) -> dict[int, int]:
    """The number of each decision that was taken back, with that of the one that did so. When the
    decisions of a digest were made is not known: none of them takes back a message's."""
    found: dict[int, int] = {}
    for newer, one in enumerate(said):
        if one.by == "digest":
            continue
        returned_to = _place_returned_to(one, said[:newer])
        for older in range(newer):
            if older not in found and (
                _shares_word(said[older], said[returned_to])
                if returned_to is not None and older > returned_to
                else _may_take_back(one, said[older], hits)
            ):
                found[older] = newer
    for number, one in enumerate(said):  # a line of a digest says again what a message said
        twin = _find_twin(one, said, found) if one.by == "digest" else None
        if twin is not None:
            found.setdefault(number, found[twin])
    return found


def _place_returned_to(one: _Statement, before: Sequence[_Statement]) -> int | None:
    """The place of the first decision that one goes back to: it turns back, and names nothing
    else."""
    new = _read(one.text)
    if not new.turns_back or not new.words or new.refused:
        return None
    return next((n for n, old in enumerate(before) if new.words <= _read(old.text).words), None)


def _shares_word(one: _Statement, other: _Statement) -> bool:
    return not _read(one.text).words.isdisjoint(_read(other.text).words)


def _find_twin(one: _Statement, said: Sequence[_Statement], among: Iterable[int]) -> int | None:
    """The message's decision that a line of a digest repeats."""
    text = fold(one.text)
    messages = (n for n in among if said[n].by != "digest")
    return next((n for n in messages if text in fold(said[n].text)), None)


def _may_take_back(newer: _Statement, older: _Statement, hits: Sequence[Hit]) -> bool:
    if (older.by, newer.by) == ("user", "assistant"):
        return False
    if turns_back_only(newer.text):
        new, old = hits[newer.hit], hits[older.hit]
        is_near = 0 < _number_of(new) - _number_of(old) <= _NEAR and old.role != "digest"
        return is_near and new.session == old.session
    return _takes_back(newer.text, older.text)


class _Choice(NamedTuple):
    """The words of a decision, and those among them of what it turns down."""

    words: frozenset[str]
    refused: frozenset[str]
    turns_back: bool


@lru_cache(maxsize=8_192)
def _read(text: str) -> _Choice:
    said = text.replace("’", "'").replace("`", "")
    languages = languages_of(said)
    refused = subject_words(" ".join(words_turned_down(said)), languages)
    return _Choice(subject_words(said, languages), refused, turns_back(said, languages))


def _takes_back(newer: str, older: str) -> bool:
    """Whether a later decision turns down what an earlier one took, or changes it in so many
    words; a missed one costs far less than a false one."""
    new, old = _read(newer), _read(older)
    if new.refused:
        return new.refused <= old.words - old.refused
    shared = new.words & old.words
    return new.turns_back and len(shared) > 1 and not new.words <= old.words


# What of it is on the subject


def _measure_coverage(
    said: Sequence[_Statement], taken_back: Mapping[int, int], about: str, hits: Sequence[Hit]
) -> list[float]:
    """How much of the subject each decision speaks of; 0 for what is beside it."""
    covers = [_coverage_of(one, about, hits) for one in said]
    # Who takes a decision back speaks of its subject, and so does what was taken back.
    for older, newer in sorted(taken_back.items()):
        covers[newer] = max(covers[newer], covers[older])
    for older, newer in sorted(taken_back.items(), reverse=True):
        covers[older] = max(covers[newer], covers[older])
    enough = max(covers, default=0) / 2
    return [cover if cover >= enough else 0 for cover in covers]


def _coverage_of(one: _Statement, about: str, hits: Sequence[Hit]) -> float:
    languages = languages_of(one.text)  # the stems of the subject are those of the decision
    wanted = subject_words(about, languages)
    named = len(wanted & subject_words(one.text, languages))
    if named or not wanted:
        return named or 1
    if one.by == "digest":
        return 0
    return 0.5 if wanted & subject_words(_context_of(hits[one.hit], hits), languages) else 0


def _context_of(hit: Hit, hits: Sequence[Hit]) -> str:
    """The words said with a decision: its passage, and what it answers."""
    before = f"m{_number_of(hit) - 1}"
    asked = [h.text for h in hits if (h.session, h.ref) == (hit.session, before)]
    return "\n".join((*asked, hit.text))
