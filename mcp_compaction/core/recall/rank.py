"""Ranks the passages that hold words of a question, by where the words stand."""

from __future__ import annotations

import math
from collections.abc import Mapping
from heapq import nlargest
from typing import NamedTuple

from mcp_compaction.core.limits import MOST_LOOKED_AT, MOST_TRIED
from mcp_compaction.core.recall.query import MOST_TERMS, Question
from mcp_compaction.core.recall.terms import is_name, parts_of_term
from mcp_compaction.model import Match, Matches, Worth

# The weights; a figure is what LoCoMo's chats 1 to 3 lose in R@5 without it (all of them: .74).
_LENGTH = 0.6  # how much a long passage counts less: .00
_NEAR = (0.55, 0.35)  # what the next and the second next message add: .15
# On long chats 1 to 3, R@5 is .52 and R@1kT .64. Without _LENT: .53 and .64, and one recall brings
# back .31 instead of .39 of what coding agents pass next. Without _LONG: .53 and .59.
_LENT = 0.5  # what messages lend shrinks by the root of the passages of both
_LONG = 0.25  # how much a passage counts less among many of one message, where no tool is
_COVER = 2.0  # how much more a passage counts with all the words in and around it: .02

IN_WORDS = 3  # terms from which on a query is a question, and no longer a pair of keywords
MOST_NAMES = 12  # the rarest; the thirteenth word of a question seldom decides
MOST_READ = 200  # messages that are judged with what stands around them, passages that are read

_Message = tuple[int | None, str, int]  # session, kind and number, as in a ref
_Place = tuple[int | None, str, int, int]  # a passage: its message, and which of its passages
_Scores = dict[int, float]  # by the position of the term


def loosen(question: Question, found: Matches) -> Question | None:
    """The question with the parts of the terms that stand nowhere; None if there are none."""
    nowhere = {terms.term for terms in found.terms if not terms.places}
    parts = {term: parts_of_term(term) for term in question.terms if term in nowhere}
    if not any(parts.values()):
        return None
    terms = [part for term in question.terms for part in parts.get(term) or (term,)]
    return question.model_copy(update={"terms": tuple(dict.fromkeys(terms))[:MOST_TERMS]})


def rank(found: Matches) -> tuple[Worth, ...]:
    """The passages worth reading, the best first, judged by where the words stand.

    An answer seldom repeats the words of its question: what stands beside matches counts too.
    """
    there = sorted((terms for terms in found.terms if terms.places), key=lambda terms: terms.places)
    found = found._replace(terms=tuple(there[:MOST_NAMES]))
    terms = _weigh_terms(found)
    passages = _score_passages(found, terms)
    messages = {place[:3]: scored.match for place, scored in passages.items()}
    ranked: list[tuple[float, int, int, Worth]] = []
    for place in _places_to_judge(passages, messages, terms):
        session, kind, number, ordinal = place
        own = passages.get(place)
        scores = dict(own.scores) if own else {}
        for near, share in _places_beside(place, messages):
            lender = passages.get(near)
            for term, score in lender.scores.items() if lender else ():
                if terms.spread[term]:
                    scores[term] = scores.get(term, 0.0) + share * score
        score = terms.worth_of(scores) * _share_of_long_talk(messages.get((session, kind, number)))
        if own:
            worth = Worth(score, session, row=own.match.row)
        else:
            worth = Worth(score, session, number=number, ordinal=ordinal)
        ranked.append((score, worth.row or 0, number, worth))
    ranked.sort(key=lambda entry: entry[:3], reverse=True)  # among equals the newest first
    return tuple(worth for *_, worth in ranked[:MOST_READ])


class _Terms(NamedTuple):
    """The terms of a question: how rare each is, and whether it counts in messages beside it."""

    weights: tuple[float, ...]
    total: float  # of the weights
    spread: tuple[bool, ...]

    def worth_of(self, scores: _Scores) -> float:
        """The sum of the scores, more the more of the question they cover."""
        covered = sum(map(self.weights.__getitem__, scores)) / self.total
        return sum(scores.values()) * (1 + _COVER * covered)


class _Scored(NamedTuple):
    """A passage that holds words of the question, and what each of them counts there."""

    match: Match
    scores: _Scores


def _weigh_terms(found: Matches) -> _Terms:
    total = max(found.messages, found.passages)  # words are counted by passage
    counts = [terms.places for terms in found.terms]
    weights = tuple(math.log(1 + (max(total, n) - n + 0.5) / (n + 0.5)) for n in counts)
    return _Terms(
        weights=weights,
        total=sum(weights) or 1.0,
        spread=tuple(not is_name(terms.term) for terms in found.terms),
    )


def _score_passages(found: Matches, terms: _Terms) -> dict[_Place, _Scored]:
    """The passages that match, and what each term counts there."""
    lengths = {match.row: match.chars for one in found.terms for match in one.matches}
    mean = sum(lengths.values()) / len(lengths) if lengths else 1.0
    passages: dict[_Place, _Scored] = {}
    for term, (one, weight) in enumerate(zip(found.terms, terms.weights, strict=True)):
        for match in one.matches:
            # BM25 with k1 = 1.2 for a word that stands once: in a short passage it seldom repeats.
            length = 1 - _LENGTH + _LENGTH * match.chars / mean
            place = (match.session, match.kind, match.number, match.ordinal)
            passage = passages.get(place)
            if passage is None:
                passage = passages[place] = _Scored(match, {})
            passage.scores[term] = weight * 2.2 / (1 + 1.2 * length)
    return passages


def _places_to_judge(
    passages: Mapping[_Place, _Scored], messages: Mapping[_Message, Match], terms: _Terms
) -> dict[_Place, None]:
    """The passages to judge: the best matches, what matches beside them and, for a question in
    words, whatever stands beside them.
    """
    worth = {place: terms.worth_of(passage.scores) for place, passage in passages.items()}
    promising = nlargest(MOST_READ, worth, key=worth.__getitem__)
    places = dict.fromkeys(promising)  # a set would have another order in every process
    in_words = all(terms.spread) and len(terms.spread) >= IN_WORDS
    for position, place in enumerate(promising):
        is_paired = position < MOST_TRIED and passages[place].match.has_tool
        anything = in_words and position < MOST_LOOKED_AT  # beside the best all is worth a look
        for near, _ in _places_beside(place, messages):
            may_answer = is_paired and abs(near[2] - place[2]) == 1
            if anything or may_answer or near in passages:
                places[near] = None
    return places


def _places_beside(place: _Place, messages: Mapping[_Message, Match]) -> list[tuple[_Place, float]]:
    """The passages before and after one, and the share of its scores that each of them lends.

    Passages of one message lend to each other where a tool was called or answered: that is one
    thing, while each paragraph of talk stands by itself. A message without a match counts as one
    passage.
    """
    session, kind, number, ordinal = place
    if kind != "m":
        return []
    own = messages.get((session, kind, number))
    size = own.size if own else 1
    beside: list[tuple[_Place, float]] = []
    for step in (-1, 1):
        near, at, near_size = number, ordinal, size
        for share in _NEAR:
            at += step
            if not 0 <= at < near_size:
                near += step
                if near < 1:
                    break
                match = messages.get((session, kind, near))
                near_size = match.size if match else 1
                at = 0 if step > 0 else near_size - 1
            if near != number:
                sizes = size * near_size
                lent = share if sizes == 1 else share * sizes**-_LENT
                beside.append(((session, kind, near, at), lent))
            elif own and own.has_tool:
                beside.append(((session, kind, near, at), share))
    return beside


def _share_of_long_talk(match: Match | None) -> float:
    """The share that a passage counts: less the more passages of talk its message has."""
    return 1.0 if match is None or match.has_tool else match.size**-_LONG
