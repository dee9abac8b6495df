"""Answers "what did we decide": the decision that stands first, those it replaced marked so."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Literal, NamedTuple

from mcp_compaction.core.digest.parse import parse_digest
from mcp_compaction.core.log.decisions.statement import find_decisions, is_acceptance
from mcp_compaction.core.log.decisions.supersede import (
    Decision,
    read_decision,
    subject_words,
    superseded_by,
)
from mcp_compaction.core.text.language import languages_of
from mcp_compaction.core.text.sentences import spoken_sentences
from mcp_compaction.core.text.signs import captures_of, find_sign, shows_sign
from mcp_compaction.core.text.words import fold, one_line
from mcp_compaction.model import Hit


def asks_for_decision(query: str) -> bool:
    """Whether a query wants to know what was settled, rather than all that was said."""
    return shows_sign("asks-decision", query.replace("’", "'"))


def decisions_first(hits: Sequence[Hit], about: Sequence[str]) -> tuple[Hit, ...]:
    """Decisions on a subject before the other hits: what stands, the newest on top, then what a
    later one took back or replaced, with a note that says which."""
    wanted = " ".join(about)
    said = _without_overreach(list(_decisions_of_hits(hits)), wanted)
    overtaken = _find_superseded(said, wanted)
    covers = _measure_coverage(said, overtaken, wanted, hits)
    standing: dict[int, tuple[float, float]] = {}
    replaced: dict[int, int] = {}  # the newest of its decisions
    for number, one in enumerate(said):
        if covers[number] and number not in overtaken:
            weight = (covers[number], _rank_in_time(number, said, overtaken))
            standing[one.hit] = max(weight, standing.get(one.hit, weight))
        elif covers[number]:
            replaced[one.hit] = number
    first = sorted(standing, key=lambda hit: standing[hit], reverse=True)
    found = standing.keys() | replaced.keys()
    then = sorted(replaced.keys() - standing.keys(), key=lambda hit: replaced[hit], reverse=True)
    return (
        *(hits[place] for place in first),
        *(
            _note_superseded(hits[place], hits[said[overtaken[replaced[place]]].hit])
            for place in then
        ),
        *(hit for place, hit in enumerate(hits) if place not in found),
    )


def chosen_words(hits: Sequence[Hit]) -> tuple[str, ...]:
    """The words of what was chosen: whatever took it back may name nothing else."""
    words = (word for one in _decisions_of_hits(hits) for word in sorted(one.choice.chosen))
    return tuple(dict.fromkeys(words))


def _note_superseded(hit: Hit, by: Hit) -> Hit:
    where = "" if by.session == hit.session else f" in session {by.session}"
    return hit.model_copy(update={"note": f"superseded by {by.ref}{where}"})


# What the hits decide


class _Statement(NamedTuple):
    """A decision in a hit, and whose it is."""

    hit: int  # the place of its hit
    by: Literal["user", "assistant", "digest"]
    text: str
    choice: Decision


_MOST_HITS, _MOST_STATED = 80, 5  # decisions are weighed pair by pair: so many, of so many hits
_NEAR = 6  # messages; "scrap that" means what was just said


def _decisions_of_hits(hits: Sequence[Hit]) -> Iterator[_Statement]:
    """The decisions of the hits, from the oldest to the newest."""
    accepted = {
        (hit.session, hit.role, _number_of(hit) - back)
        for hit in hits
        if is_acceptance(hit.text)
        for back in (1, 2)
    }
    last: Hit | None = None
    for place in _places_in_time(hits)[-_MOST_HITS:]:
        hit = hits[place]
        other = "user" if hit.role == "assistant" else "assistant"
        stated = _statements_of(hit, (hit.session, other, _number_of(hit)) in accepted)
        for by, text in islice(stated, _MOST_STATED):
            choice = read_decision(text)
            if choice.turns_back and not choice.words and not _follows_closely(hit, last):
                continue
            last = hit
            yield _Statement(place, by, text, choice)


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


def _follows_closely(hit: Hit, last: Hit | None) -> bool:
    if last is None or last.session != hit.session or last.role == "digest":
        return False
    return _number_of(hit) - _number_of(last) <= _NEAR


def _statements_of(
    hit: Hit, is_accepted: bool
) -> Iterator[tuple[Literal["user", "assistant", "digest"], str]]:
    match hit.role:
        case "digest":
            for text in _decisions_of_digest(hit.text):
                yield "digest", text
        case "user" | "assistant" as role:
            for text in _decisions_and_proposals(hit.text, role == "user"):
                if not _is_proposal(text, role == "user"):
                    yield role, text
                elif is_accepted:
                    yield "user", text
        case _:
            return


def _decisions_of_digest(text: str) -> tuple[str, ...]:
    """The decisions of a digest from the oldest on: it lists the newest first."""
    draft = parse_digest(re.sub(r"^DECISIONS: ", "DECISIONS\n", text), "archive")
    return tuple(item.text for item in draft.items("DECISIONS"))[::-1]


def _decisions_and_proposals(text: str, by_user: bool) -> list[str]:
    """Decisions and proposals, in the order they were said."""
    found = list(find_decisions(text, by_user))
    for sentence in spoken_sentences(text):
        is_plan = find_sign("plans" if by_user else "reports", sentence)
        if (is_plan or _is_proposal(sentence.bare, by_user)) and not any(
            sentence.text in f for f in found
        ):
            found.append(sentence.text)
    whole = one_line(text)
    return sorted(found, key=whole.find)


def _is_proposal(text: str, by_user: bool) -> bool:
    """Whether a text is no decision until somebody else says yes; advice is one in an assistant's
    mouth only."""
    said = text.replace("’", "'")
    return shows_sign("suggests", said) or (not by_user and shows_sign("offers", said))


# What a later one overtakes


def _without_overreach(said: list[_Statement], about: str) -> list[_Statement]:
    """The decisions without those an assistant only means to make against the user's choice."""
    overtaken = _find_superseded(said, about)
    beyond = {
        newer
        for older, newer in overtaken.items()
        if (said[older].by, said[newer].by) == ("user", "assistant")
        and shows_sign("intends", said[newer].text.replace("’", "'"))
    }
    return [one for number, one in enumerate(said) if number not in beyond]


def _find_superseded(said: Sequence[_Statement], about: str) -> dict[int, int]:
    """The number of each superseded decision, with that of the one that supersedes it."""
    # When the decisions of a digest were made is not known, only that it was before its writing:
    # none of them overtakes a message, but a later message may overtake them.
    spoken = [number for number, one in enumerate(said) if one.by != "digest"]
    overtaken = _find_superseded_among(said, spoken, about)
    for older, newer in _find_superseded_among(said, range(len(said)), about).items():
        if said[older].by == "digest":
            overtaken[older] = newer
    for number, one in enumerate(said):
        twin = _find_repeated(one, said) if one.by == "digest" else None
        if twin in overtaken:
            overtaken[number] = overtaken[twin]
    return overtaken


def _find_repeated(one: _Statement, said: Sequence[_Statement]) -> int | None:
    """The message's decision that a line of a digest repeats."""
    text = fold(one.text)
    return next(
        (n for n, other in enumerate(said) if other.by != "digest" and text in fold(other.text)),
        None,
    )


def _find_superseded_among(
    said: Sequence[_Statement], numbers: Sequence[int], about: str
) -> dict[int, int]:
    found = superseded_by([said[number].text for number in numbers])
    overtaken = {
        numbers[older]: numbers[newer]
        for older, newer in found.items()
        if not _stands_beside(said[numbers[newer]], said[numbers[older]])
    }
    for place, newer in enumerate(numbers):
        for older in numbers[:place]:
            is_gone = overtaken.get(older, newer) < newer
            if not is_gone and (
                _is_rival(said[newer], said[older])
                or _is_change(said[newer], said[older], about)
                or _goes_back(newer, older, overtaken, said)
            ):
                overtaken[older] = newer
    return overtaken


def _stands_beside(newer: _Statement, older: _Statement) -> bool:
    choice = newer.choice
    adds = shows_sign("adds", newer.text) and not choice.turns_back and not choice.refused
    return bool(adds) or _agrees(choice, older.choice)


def _agrees(newer: Decision, older: Decision) -> bool:
    """Whether a newer decision chooses the same once more."""
    return bool(newer.chosen) and newer.chosen <= older.chosen


def _goes_back(
    newer: int, between: int, overtaken: Mapping[int, int], said: Sequence[_Statement]
) -> bool:
    """Whether a decision returns to what another had replaced."""
    choice = said[newer].choice
    if not choice.turns_back:
        return False
    firsts = (said[first].choice for first, by in overtaken.items() if by == between)
    return any(
        _agrees(choice, first) and (not choice.about or choice.about == first.about)
        for first in firsts
    )


def _is_rival(newer: _Statement, older: _Statement) -> bool:
    """Whether both choose for one and the same thing, which has room for one of them."""
    new, old = newer.choice, older.choice
    if _means_another(new, old) or not (
        new.about and new.about == old.about and new.is_choice and old.is_choice
    ):
        return False
    languages = languages_of(newer.text)
    many = subject_words("\n".join(captures_of("many", newer.text, languages)), languages)
    has_room = shows_sign("adds", newer.text) or not new.about.isdisjoint(many)
    return not has_room and bool(new.chosen and old.chosen) and new.chosen.isdisjoint(old.chosen)


def _is_change(newer: _Statement, older: _Statement, about: str) -> bool:
    """Whether one sounds like a change, and both speak of the very thing that was asked for."""
    new, old = newer.choice, older.choice
    if not shows_sign("changes", newer.text) or shows_sign("adds", newer.text):
        return False
    languages = languages_of(newer.text)
    wanted = subject_words(about, languages)
    told = subject_words(newer.text, languages) & subject_words(older.text, languages)
    if not wanted or not wanted <= told:
        return False
    is_elsewhere = new.about and old.about and new.about != old.about
    return not (is_elsewhere or _means_another(new, old) or _agrees(new, old))


def _means_another(newer: Decision, older: Decision) -> bool:
    """Whether a newer decision turns down something else than the older one chose."""
    return bool(newer.refused) and newer.refused.isdisjoint(older.chosen)


# What of it is on the subject


def _measure_coverage(
    said: Sequence[_Statement],
    overtaken: Mapping[int, int],
    about: str,
    hits: Sequence[Hit],
) -> list[float]:
    """How much of the subject each decision speaks of; 0 for what is beside it."""
    covers = [_coverage_of(one, about, hits) for one in said]
    # Who replaces a decision speaks of its subject, and so does what was replaced.
    for older, newer in sorted(overtaken.items()):
        covers[newer] = max(covers[newer], covers[older])
    for older, newer in sorted(overtaken.items(), reverse=True):
        covers[older] = max(covers[newer], covers[older])
    enough = max(covers, default=0) / 2
    return [cover if cover >= enough else 0 for cover in covers]


def _coverage_of(one: _Statement, about: str, hits: Sequence[Hit]) -> float:
    languages = languages_of(one.text)  # the stems of the subject are those of the decision
    wanted = subject_words(about, languages)
    named = len(wanted & subject_words(one.text, languages))
    if named or not wanted:
        return named or 1
    if one.by == "digest" or one.choice.about:  # "for the cache" is not about the store
        return 0
    return 0.5 if wanted & subject_words(_context_of(hits[one.hit], hits), languages) else 0


def _context_of(hit: Hit, hits: Sequence[Hit]) -> str:
    """The words said with a decision: its passage, and what it answers."""
    before = f"m{_number_of(hit) - 1}"
    asked = [h.text for h in hits if (h.session, h.ref) == (hit.session, before)]
    return "\n".join((*asked, hit.text))


def _rank_in_time(number: int, said: Sequence[_Statement], overtaken: Mapping[int, int]) -> float:
    """The place of a decision in time; who repeats the user's choice stands right below it."""
    one = said[number]
    if one.by == "user":
        return number
    if one.by == "digest" and (twin := _find_repeated(one, said)) is not None:
        return twin - 0.5
    first = next(
        (
            n
            for n, other in enumerate(said[:number])
            if other.by == "user" and n not in overtaken and other.choice.chosen & one.choice.chosen
        ),
        None,
    )
    return number if first is None else first - 0.5
