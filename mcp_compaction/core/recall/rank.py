"""Ranks the passages that hold words of a question, by where the words stand."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from heapq import nlargest
from typing import NamedTuple

from mcp_compaction.core.recall.query import MOST_TERMS, Question
from mcp_compaction.core.recall.terms import is_name, parts_of_term
from mcp_compaction.model import Match, Matches, Worth

# The weights; a figure is what LoCoMo's chats 1 to 3 lose in R@5 without it (all of them: .74).
_LENGTH = 0.6  # how much a long passage counts less: .00
_NEAR = (0.55, 0.35)  # what the next and the second next message add: .15
# What is lent from one message to another shrinks by the root of the passages of each of them:
# a short turn is understood by those beside it, a long one speaks for itself.
_SPREAD = 0.5
_COVER = 2.0  # how much more a passage counts with all the words in and around it: .02

_MOST_BESIDE = 100  # of the best matches, beside which anything is worth a look
_IN_WORDS = 3  # terms from which on a query is a question, and no longer a pair of keywords
_MOST_TERMS = 12  # the rarest; the thirteenth word of a question seldom decides
_TOO_FEW = 30  # places; with fewer the other words are looked at as well
_MOST_JUDGED = 200  # messages that are looked at together with what stands around them
MOST_READ = 200  # passages whose texts are looked at

_Place = tuple[int | None, str, int]
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
    found = _rarest_terms(found)
    terms = _weigh_terms(found)
    messages = _score_passages(found, terms)
    lent = {place: _lent_scores(passages, terms) for place, passages in messages.items()}
    ranked: list[tuple[float, int, Worth]] = []
    for place in _places_to_judge(messages, terms):
        around = _scores_around(place, lent)
        for passage in messages.get(place, ()):
            match = passage.match
            score = terms.worth_of(_add_scores(passage.scores, around, match.size**-_SPREAD))
            ranked.append((score, match.row, Worth(score, match.session, row=match.row)))
        if place not in messages:
            score = terms.worth_of(around)
            ranked.append((score, 0, Worth(score, place[0], number=place[2])))
    ranked.sort(key=lambda entry: entry[:2], reverse=True)  # among equals the newest first
    return tuple(worth for _, _, worth in ranked[:MOST_READ])


def _rarest_terms(found: Matches) -> Matches:
    """The rarest terms that stand somewhere."""
    there = sorted((terms for terms in found.terms if terms.places), key=lambda terms: terms.places)
    number = min(_MOST_TERMS, len(there))
    while number < len(there) and sum(len(one.matches) for one in there[:number]) < _TOO_FEW:
        number += 1
    return found._replace(terms=tuple(there[:number]))


class _Terms(NamedTuple):
    """The terms of a question: how rare each is, and whether it counts in messages beside it."""

    weights: tuple[float, ...]
    spread: tuple[bool, ...]

    def worth_of(self, scores: _Scores) -> float:
        """The sum of the scores, more the more of the question they cover."""
        covered = sum(self.weights[term] for term in scores) / (sum(self.weights) or 1.0)
        return sum(scores.values()) * (1 + _COVER * covered)


class _Scored(NamedTuple):
    """A passage that holds words of the question, and what each of them counts there."""

    match: Match
    scores: _Scores


def _weigh_terms(found: Matches) -> _Terms:
    total = max(found.messages, found.passages)  # words are counted by passage
    counts = [terms.places for terms in found.terms]
    return _Terms(
        weights=tuple(math.log(1 + (max(total, n) - n + 0.5) / (n + 0.5)) for n in counts),
        spread=tuple(not is_name(terms.term) for terms in found.terms),
    )


def _score_passages(found: Matches, terms: _Terms) -> dict[_Place, list[_Scored]]:
    """The passages that match, by message."""
    lengths = {match.row: match.chars for one in found.terms for match in one.matches}
    mean = sum(lengths.values()) / len(lengths) if lengths else 1.0
    scored: dict[int, _Scored] = {}
    for term, (one, weight) in enumerate(zip(found.terms, terms.weights, strict=True)):
        for match in one.matches:
            # BM25 with k1 = 1.2 for a word that stands once: in a short passage it seldom repeats.
            length = 1 - _LENGTH + _LENGTH * match.chars / mean
            passage = scored.setdefault(match.row, _Scored(match, {}))
            passage.scores[term] = weight * 2.2 / (1 + 1.2 * length)
    messages: defaultdict[_Place, list[_Scored]] = defaultdict(list)
    for passage in scored.values():
        match = passage.match
        messages[match.session, match.kind, match.number].append(passage)
    return dict(messages)


def _lent_scores(passages: Sequence[_Scored], terms: _Terms) -> _Scores:
    """The scores that a message lends to those beside it: its best passage's, for names none."""
    best = max(passages, key=lambda passage: terms.worth_of(passage.scores))
    share = best.match.size**-_SPREAD
    return {term: share * score for term, score in best.scores.items() if terms.spread[term]}


def _places_to_judge(messages: Mapping[_Place, Sequence[_Scored]], terms: _Terms) -> set[_Place]:
    """The messages to judge: the best matches, what matches beside them and, for a question in
    words, whatever stands beside them.
    """
    best = {
        place: max(terms.worth_of(passage.scores) for passage in passages)
        for place, passages in messages.items()
    }
    promising = nlargest(_MOST_JUDGED, best, key=best.__getitem__)
    places = set(promising)
    in_words = all(terms.spread) and len(terms.spread) >= _IN_WORDS
    for position, (session, kind, number) in enumerate(promising):
        if kind == "m":
            anything = in_words and position < _MOST_BESIDE
            for near in range(max(1, number - len(_NEAR)), number + len(_NEAR) + 1):
                place = (session, kind, near)
                if anything or place in messages:
                    places.add(place)
    return places


def _scores_around(place: _Place, lent: Mapping[_Place, _Scores]) -> _Scores:
    """The scores that the messages beside one lend to it, term by term."""
    session, kind, number = place
    added: _Scores = {}
    if kind != "m":
        return added
    for distance, share in enumerate(_NEAR, 1):
        for near in (number - distance, number + distance):
            added = _add_scores(added, lent.get((session, kind, near), {}), share)
    return added


def _add_scores(one: _Scores, other: _Scores, share: float) -> _Scores:
    total = dict(one)
    for term, score in other.items():
        total[term] = total.get(term, 0.0) + share * score
    return total
