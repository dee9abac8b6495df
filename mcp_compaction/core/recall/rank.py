"""Ranks what the archive's index found for a question, and chooses what fits into the answer."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from difflib import get_close_matches
from heapq import nlargest

from mcp_compaction.core.recall.decisions import decisions_first
from mcp_compaction.core.recall.query import MOST_TERMS, Question
from mcp_compaction.core.recall.terms import closeness_of, is_name, parts_of_term
from mcp_compaction.core.text.dates import Stretch
from mcp_compaction.core.text.patterns import pattern_of
from mcp_compaction.core.text.words import one_line
from mcp_compaction.core.tokens import CountTokens
from mcp_compaction.model import Hit, Match, Matches, Value, Worth

# The weights; a figure is what LoCoMo's chats 1 to 3 lose in R@5 without it (all of them: .74).
_LENGTH = 0.6  # how much a long passage counts less: .00
_NEAR = (0.55, 0.35)  # what the next and the second next message add: .15
_SAME = 0.5  # what another passage of the same message adds
_COVER = 4.0  # how much more a passage counts with all the words in and around it: .02
_SPEAKER = 1.5  # said by the one whom the question names: .03
_DAY, _SOON = 3.0, 2.0  # said on the day that the question names, or soon after: .02
_ASKING = 0.75  # what ends with a question mark seldom answers: .01
# On long chats with an assistant, where user messages hold 77 % of the evidence, R@5 goes from
# .34 to .41 by 1.3 and to .47 by 2; more than 1.5 hides what tools answered.
_USER = 1.5
_DIGEST = 0.8  # the messages themselves say more
# A name counts whole; spelled otherwise, within a longer name and in pieces ever less.
_CLOSE = (0.4, 0.6, 0.8, 1.0)

_MOST_BESIDE = 100  # of the best matches, beside which anything is worth a look
_IN_WORDS = 3  # terms from which on a query is a question, and no longer a pair of keywords
_MOST_TERMS = 12  # the rarest; the thirteenth word of a question seldom decides
_TOO_FEW = 30  # places; with fewer the other words are looked at as well
_MOST_JUDGED = 200  # messages that are looked at together with what stands around them
MOST_READ = 200  # passages whose texts are looked at
_MOST_JOINED = 1_200  # characters of neighbouring passages shown as one
_PER_PASSAGE = 20  # tokens of a passage's label
_PER_ANSWER = 90  # of the answer's first and last lines
_ALIKE = 2  # letters that a misspelt word begins with like the one that was meant
_SHORTEST = 60  # characters of a passage that is shown in part
_WEEKS = timedelta(weeks=3)
_LABEL = pattern_of(r"\s*(\w[\w .'-]{0,30}):\s")

_Place = tuple[int | None, str, int]
_Scores = dict[int, float]  # by the position of the term


class AnswerHits(Value):
    """The passages that fit into an answer, and how many more there are."""

    hits: tuple[Hit, ...]
    more: int


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
    weights = [_rarity_of(found.total, terms.places) for terms in found.terms]
    spreads = [not is_name(terms.term) for terms in found.terms]
    rows, best = _scores(found, weights)
    total = sum(weights)
    ranked: list[tuple[float, int, Worth]] = []
    for place in _places_to_judge(best, spreads, weights, total):
        around = _scores_around(place, best, spreads)
        for match, own in rows.get(place, ()):
            scores = _add_scores(own, around)
            for term, score in best[place].items():
                if spreads[term] and term not in scores:
                    scores[term] = _SAME * score
            score = _score_with_cover(scores, weights, total)
            ranked.append((score, match.row, Worth(score, match.session, row=match.row)))
        if place not in best:
            score = _score_with_cover(around, weights, total)
            ranked.append((score, 0, Worth(score, place[0], number=place[2])))
    ranked.sort(key=lambda entry: entry[:2], reverse=True)  # among equals the newest first
    return tuple(worth for _, _, worth in ranked[:MOST_READ])


def put_decisions_first(question: Question, hits: Sequence[Hit]) -> tuple[Hit, ...]:
    """The decisions among the hits first, the one that stands on top."""
    return tuple(hits) if _are_apart(hits) else decisions_first(hits, question.terms)


def note_superseded(hits: Sequence[Hit]) -> tuple[Hit, ...]:
    """The hits in their order, with a note on decisions that a later one of them took back."""
    if _are_apart(hits):
        return tuple(hits)
    notes = {(hit.session, hit.ref, hit.ordinal): hit.note for hit in decisions_first(hits, ())}
    return tuple(
        hit.model_copy(update={"note": note})
        if (note := notes[hit.session, hit.ref, hit.ordinal])
        else hit
        for hit in hits
    )


def _are_apart(hits: Iterable[Hit]) -> bool:
    """Whether hits come from several projects, none of which decides for another."""
    return len({hit.project for hit in hits}) > 1


def refine(question: Question, hits: Iterable[Hit]) -> tuple[Hit, ...]:
    """The hits in order, judged by their texts too; what stands twice is one."""
    names = [term for term in question.terms if is_name(term)][:_MOST_TERMS]
    judged = [(hit.score * _weight_of(question, names, hit), hit) for hit in hits]
    judged = [one for one in judged if one[0]]
    judged.sort(key=lambda one: -one[0])  # stable: among equals as they came
    return tuple(_join_neighbors(_merge_repeats(judged)))


def choose(hits: Sequence[Hit], max_tokens: int, count: CountTokens, skip: int = 0) -> AnswerHits:
    """The passages that the answer holds, after those already given; at least one's start."""
    chosen: list[Hit] = []
    used = _PER_ANSWER
    left = hits[skip:]
    for hit in left:
        cost = count(hit.text) + _PER_PASSAGE
        if used + cost > max_tokens:
            break
        chosen.append(hit)
        used += cost
    if left and not chosen:
        start = _beginning_of(left[0].text, max_tokens - used - _PER_PASSAGE, count)
        chosen = [left[0].model_copy(update={"text": start})]
    return AnswerHits(hits=tuple(chosen), more=len(left) - len(chosen))


def _beginning_of(text: str, max_tokens: int, count: CountTokens) -> str:
    """As much of a text as fits, to the end of a word; a few words at least."""
    most = max(_SHORTEST, len(text) * max(1, max_tokens) // max(1, count(text)))
    while most > _SHORTEST and count(text[:most]) > max_tokens:
        most = max(_SHORTEST, most * 3 // 4)
    return text if most >= len(text) else text[:most].rsplit(None, 1)[0] + " …"


def similar_word(term: str, hits: Iterable[Hit]) -> str | None:
    """A word of these texts that may have been meant."""
    words = {word.lower(): word for hit in hits for word in re.findall(r"\w{3,}", hit.text)}
    alike = [word for word in words if word.startswith(term[:_ALIKE].lower())]
    near = get_close_matches(term.lower(), alike, n=1, cutoff=0.7)
    return words[near[0]] if near else None


def _rarest_terms(found: Matches) -> Matches:
    """The rarest terms that stand somewhere."""
    there = sorted((terms for terms in found.terms if terms.places), key=lambda terms: terms.places)
    number = min(_MOST_TERMS, len(there))
    while number < len(there) and sum(len(one.matches) for one in there[:number]) < _TOO_FEW:
        number += 1
    return Matches(tuple(there[:number]), found.total)


def _rarity_of(total: int, count: int) -> float:
    return math.log(1 + (max(total, count) - count + 0.5) / (count + 0.5))


def _scores(
    found: Matches, weights: Sequence[float]
) -> tuple[dict[_Place, list[tuple[Match, _Scores]]], dict[_Place, _Scores]]:
    """What the passages of each message score, and the best of them, term by term."""
    own: dict[int, tuple[Match, _Scores]] = {}
    best: defaultdict[_Place, _Scores] = defaultdict(dict)
    lengths = {match.row: match.chars for terms in found.terms for match in terms.matches}
    mean = sum(lengths.values()) / len(lengths) if lengths else 1.0
    for term, (terms, weight) in enumerate(zip(found.terms, weights, strict=True)):
        for match in terms.matches:
            # BM25 with k1 = 1.2 for a word that stands once: in a short passage it seldom repeats.
            length = 1 - _LENGTH + _LENGTH * match.chars / mean
            score = weight * 2.2 / (1 + 1.2 * length)
            own.setdefault(match.row, (match, {}))[1][term] = score
            message = best[match.session, match.kind, match.number]
            message[term] = max(score, message.get(term, 0.0))
    rows: defaultdict[_Place, list[tuple[Match, _Scores]]] = defaultdict(list)
    for match, scores in own.values():
        rows[match.session, match.kind, match.number].append((match, scores))
    return dict(rows), dict(best)


def _places_to_judge(
    best: Mapping[_Place, _Scores],
    spreads: Sequence[bool],
    weights: Sequence[float],
    total: float,
) -> set[_Place]:
    """The messages to judge: the best matches, what matches beside them and, for a question in
    words, whatever stands beside them.
    """
    by_themselves = {
        place: _score_with_cover(scores, weights, total) for place, scores in best.items()
    }
    promising = nlargest(_MOST_JUDGED, by_themselves, key=by_themselves.__getitem__)
    places = set(promising)
    in_words = all(spreads) and len(spreads) >= _IN_WORDS
    for position, (session, kind, number) in enumerate(promising):
        if kind == "m":
            anything = in_words and position < _MOST_BESIDE
            for near in range(max(1, number - len(_NEAR)), number + len(_NEAR) + 1):
                place = (session, kind, near)
                if anything or place in best:
                    places.add(place)
    return places


def _scores_around(
    place: _Place, best: Mapping[_Place, _Scores], spreads: Sequence[bool]
) -> _Scores:
    """What the messages beside one add to it, term by term."""
    session, kind, number = place
    added: _Scores = {}
    if kind != "m":
        return added
    for distance, share in enumerate(_NEAR, 1):
        for near in (number - distance, number + distance):
            for term, score in best.get((session, kind, near), {}).items():
                if spreads[term]:
                    added[term] = added.get(term, 0.0) + share * score
    return added


def _add_scores(one: _Scores, other: _Scores) -> _Scores:
    total = dict(one)
    for term, score in other.items():
        total[term] = total.get(term, 0.0) + score
    return total


def _score_with_cover(scores: _Scores, weights: Sequence[float], total: float) -> float:
    covered = sum(weights[term] for term in scores)
    return sum(scores.values()) * (1 + _COVER * covered / total if total else 1)


def _weight_of(question: Question, names: Sequence[str], hit: Hit) -> float:
    weight = math.prod(_CLOSE[closeness_of(name, hit.text)] for name in names)
    weight *= _weight_of_speaker(question, hit)
    if hit.role == "tool" and hit.is_beside:
        return 0.0
    if hit.role != "tool" and hit.text.rstrip().endswith(("?", "？")):
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
    return {"user": _USER, "digest": _DIGEST}.get(hit.role, 1.0)


def _merge_repeats(judged: Iterable[tuple[float, Hit]]) -> list[Hit]:
    """Each text once, with its score and the refs of the others that say the same."""
    kept: dict[tuple[str, str, str], tuple[float, Hit, list[str]]] = {}
    for score, hit in judged:
        key = (hit.project, hit.session, one_line(hit.text))
        _, first, also = kept.setdefault(key, (score, hit, []))
        if hit.ref != first.ref and hit.ref not in also:
            also.append(hit.ref)
    return [
        hit.model_copy(update={"score": score, "also": tuple(also)})
        for score, hit, also in kept.values()
    ]


def _join_neighbors(hits: Iterable[Hit]) -> list[Hit]:
    """Neighboring passages of a message as one, where the better one stands."""
    spans: list[list[Hit]] = []
    by_ref: defaultdict[tuple[str, str, str], list[list[Hit]]] = defaultdict(list)
    for hit in hits:
        siblings = by_ref[hit.project, hit.session, hit.ref]
        home = next((span for span in siblings if _continues(span, hit)), None)
        if home is None:
            siblings.append([hit])
            spans.append(siblings[-1])
        else:
            home.append(hit)
    return [_join_span(span) for span in spans]


def _continues(span: Sequence[Hit], hit: Hit) -> bool:
    room = _MOST_JOINED - sum(len(other.text) for other in span)
    if hit.role != span[0].role:  # a host's words in a user's message are not the user's
        return False
    return len(hit.text) <= room and any(abs(other.ordinal - hit.ordinal) == 1 for other in span)


def _join_span(span: Sequence[Hit]) -> Hit:
    if len(span) == 1:
        return span[0]
    in_order = sorted(span, key=lambda hit: hit.ordinal)
    return span[0].model_copy(
        update={
            "text": "\n".join(hit.text for hit in in_order),
            "ordinal": in_order[0].ordinal,
            "also": tuple(dict.fromkeys(ref for hit in span for ref in hit.also)),
        }
    )
