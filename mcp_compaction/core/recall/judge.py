"""Judges passages by their texts: who says it, when, whether it is what was asked for; and brings a
call together with its result."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from difflib import get_close_matches

from mcp_compaction.core.limits import LONGEST_LINE, MOST_TRIED
from mcp_compaction.core.recall.query import Question
from mcp_compaction.core.recall.rank import IN_WORDS, MOST_NAMES
from mcp_compaction.core.recall.terms import Closeness, closeness_of, is_name
from mcp_compaction.core.text.dates import Stretch
from mcp_compaction.core.text.patterns import pattern_of
from mcp_compaction.core.text.words import one_line
from mcp_compaction.model import Hit

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
