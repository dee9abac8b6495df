"""Ranks passages by where the words of a question stand, and judges the best by their texts: who
says it, when, whether it is what was asked for; a call and its result are brought together.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from difflib import get_close_matches
from heapq import nlargest
from typing import NamedTuple

from mcp_compaction.core.limits import LONGEST_LINE, MOST_LOOKED_AT, MOST_TRIED
from mcp_compaction.core.recall.query import MOST_TERMS, Question
from mcp_compaction.core.recall.terms import Closeness, closeness_of, is_name, parts_of_term
from mcp_compaction.core.text.dates import Stretch
from mcp_compaction.core.text.patterns import pattern_of
from mcp_compaction.core.text.words import one_line
from mcp_compaction.model import Hit, Match, Matches, Worth

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

# The weights; a figure is what LoCoMo's chats 1 to 3 lose in R@5 without it (all of them: .74).
_DAY, _SOON = 3.0, 2.0  # said on the day that the question names, or soon after: .02
_ASKING = 0.75  # a short text with a question mark seldom answers: .01
# Said by the one whom the question names: .03; where it names nobody, by the user. On long chats
# with an assistant, where user messages hold 77 % of the evidence, R@1kT was .55 with 1.25, .57
# with this and .58 with 2; more than 1.5 hides what tools answered.
_SPEAKER = 1.5
# How much less a name counts that is spelled otherwise; again, within a longer name; in pieces.
_FARTHER = 0.2

_WEEKS = timedelta(weeks=3)
_LABEL = pattern_of(r"\s*(\w[\w .'-]{0,30}):\s")


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


def refine(question: Question, hits: Iterable[Hit]) -> tuple[Hit, ...]:
    """The hits in order, judged by their texts too; what stands twice is one."""
    names = [term for term in question.terms if is_name(term)][:MOST_NAMES]
    asked = (hit for hit in hits if not is_unasked(question, hit))
    judged = [(hit.score * _weight_of(question, names, hit), hit) for hit in asked]
    judged = [one for one in judged if one[0]]
    judged.sort(key=lambda one: -one[0])  # stable: among equals as they came
    return _let_compete(_merge_repeats(judged))


def is_unasked(question: Question, hit: Hit) -> bool:
    """Whether a hit holds no word of the query and may not stand for itself: what was said beside
    the words of a question may answer it, a result or what stands beside a keyword does not."""
    return hit.is_beside and (hit.role == "tool" or len(question.terms) < IN_WORDS)


def similar_word(term: str, hits: Iterable[Hit]) -> str | None:
    """A word of these texts that may have been meant."""
    words = {word.lower(): word for hit in hits for word in re.findall(r"\w{3,}", hit.text)}
    alike = [word for word in words if word.startswith(term[:2].lower())]
    near = get_close_matches(term.lower(), alike, n=1, cutoff=0.7)
    return words[near[0]] if near else None


def _weight_of(question: Question, names: Sequence[str], hit: Hit) -> float:
    weight = math.prod(
        1 - _FARTHER * (Closeness.WHOLE - closeness_of(name, hit.text)) for name in names
    )
    weight *= _weight_of_speaker(question, hit)
    is_short = len(hit.text) <= LONGEST_LINE
    if hit.role != "tool" and is_short and hit.text.rstrip().endswith(("?", "？")):
        weight *= _ASKING
    return weight * max((_weight_of_day(day, hit.at) for day in question.days), default=1.0)


def _weight_of_day(day: Stretch, at: datetime | None) -> float:
    """The weight of when a hit was said: people tell of a day on it, or in the weeks after."""
    if at is None or not day.begin <= at < day.end + _WEEKS:
        return 1.0
    return _DAY if at < day.end else _SOON


def _weight_of_speaker(question: Question, hit: Hit) -> float:
    """Where a text says who speaks and the question names someone, names count; else roles."""
    label = _LABEL.match(hit.text) if question.named else None
    if label is not None:
        named = [name for name in question.named if name in label[1].lower().split()]
        return _SPEAKER if named else 1.0
    return _SPEAKER if hit.role == "user" else 1.0


def _merge_repeats(judged: Iterable[tuple[float, Hit]]) -> list[tuple[float, Hit, list[str]]]:
    """Each text once, with its score and the refs of the others that say the same."""
    kept: dict[tuple[str, str, str], tuple[float, Hit, list[str]]] = {}
    for score, hit in judged:
        key = (hit.project, hit.session, one_line(hit.text))
        _, first, also = kept.setdefault(key, (score, hit, []))
        if hit.ref != first.ref and hit.ref not in also:
            also.append(hit.ref)
    return list(kept.values())


def _let_compete(judged: Iterable[tuple[float, Hit, Sequence[str]]]) -> tuple[Hit, ...]:
    """The hits in order anew: the second passage of a message counts half, the third a third.

    What a tool was given or gave back is one thing, though it was cut into passages.
    """
    found: Counter[tuple[str, str, str]] = Counter()
    weighed: list[Hit] = []
    for score, hit, also in judged:
        message = (hit.project, hit.session, hit.ref)
        found[message] += not hit.has_tool
        change = {"score": score / max(1, found[message]), "also": tuple(also)}
        weighed.append(hit.model_copy(update=change))
    # Stable: equals as they came. What digests say, messages say better, if they say it.
    return tuple(sorted(weighed, key=lambda hit: (hit.role == "digest", -hit.score)))


def bring_together(
    question: Question, hits: Sequence[Hit], others: Sequence[Hit]
) -> tuple[Hit, ...]:
    """The hits, each of the first with the message that answers or made its call behind it.

    `others`: of use only there, since they hold no word of the query themselves. A question in
    words brings all that was found of a call where its best passage stands: who describes a call
    wants what it was given, and a part of a script is of little use.
    """
    calls: dict[tuple[str, str, str], list[Hit]] = {}
    for hit in hits if len(question.terms) >= IN_WORDS else ():
        if hit.has_tool and hit.role != "tool":
            calls.setdefault(_passage_of(hit)[:3], []).append(hit)
    brought: dict[tuple[str, str, str, int], Hit] = {}
    for position, hit in enumerate(hits):
        if _passage_of(hit) in brought:
            continue
        call = calls.get(_passage_of(hit)[:3], ())
        near = [hit, *sorted(call, key=lambda one: one.ordinal)]
        if position < MOST_TRIED and hit.has_tool:
            near += [one for one in (*hits, *others) if _are_pair(hit, one)][:1]
        for one in near:
            moved = one if one is hit else one.model_copy(update={"score": hit.score})
            brought.setdefault(_passage_of(one), moved)
    return tuple(brought.values())


def _passage_of(hit: Hit) -> tuple[str, str, str, int]:
    return hit.project, hit.session, hit.ref, hit.ordinal


def _are_pair(hit: Hit, other: Hit) -> bool:
    """Whether one of two messages, which stand next to each other, answers a call of the other."""
    if not (hit.has_tool and other.has_tool) or (hit.project, hit.session) != (
        other.project,
        other.session,
    ):
        return False
    step = -1 if hit.role == "tool" else 1
    is_answer = (hit.role == "tool") != (other.role == "tool")
    return is_answer and other.ref == f"m{int(hit.ref[1:]) + step}"
