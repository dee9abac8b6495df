"""Spreads the first hits over what a question asks for: several things by name, or a list."""

from __future__ import annotations

import re
from collections.abc import Sequence

from mcp_compaction.core.recall.query import Question
from mcp_compaction.core.recall.terms import closeness_of, is_name
from mcp_compaction.core.text.signs import shows_sign
from mcp_compaction.model import Hit

_FIRST = 5  # hits in which each thing that the question names has its turn
_MOST_TURNS = 30  # hits among which one with that thing is looked for
_WORTH = 0.3  # of the best score, which a hit needs to have its turn
# With these R@5 of LoCoMo's multi-hop questions is .37 instead of .36, on chats 1 to 3 and 4 to 5.
# Stronger ones gave .39 on chats 1 to 3 alone, and cost other kinds of questions more.
_NEAR = 2  # messages before and after a hit, which are the same place
_BESIDE = 0.8  # what a hit counts for each better one at its place, where a list is asked for
_MOST_PLACES = 12  # hits whose order that changes


def spread(question: Question, hits: Sequence[Hit]) -> tuple[Hit, ...]:
    """The hits with several things in turns and, where a list is asked for, from several places."""
    if shows_sign("asks-list", question.text):
        hits = _leave_places(hits)
    return _take_turns(_things_of(question), hits)


def _things_of(question: Question) -> tuple[str, ...]:
    """The identifiers and the words with a capital that a question names."""
    names = (term.lower() for term in question.terms if is_name(term))
    return tuple(dict.fromkeys((*names, *question.named)))


def _take_turns(things: Sequence[str], hits: Sequence[Hit]) -> tuple[Hit, ...]:
    """The hits, each thing in its turn among the first; a hit may be the turn of several."""
    left = list(hits[:_MOST_TURNS]) if len(things) > 1 else []
    held = {id(hit): {thing for thing in things if _holds(hit.text, thing)} for hit in left}
    if len(set[str]().union(*held.values())) < 2:
        return tuple(hits)
    least = _WORTH * left[0].score
    first: list[Hit] = []
    had: set[str] = set()
    while left and len(first) < _FIRST:
        new = [hit for hit in left if hit.score >= least and held[id(hit)] - had]
        if not new:
            had = set()
        chosen = (new or left)[0]
        left.remove(chosen)
        first.append(chosen)
        had |= held[id(chosen)]
    return (*first, *left, *hits[_MOST_TURNS:])


def _holds(text: str, thing: str) -> bool:
    if is_name(thing):
        return bool(closeness_of(thing, text))
    return re.search(rf"(?<!\w){re.escape(thing)}", text, re.I) is not None


def _leave_places(hits: Sequence[Hit]) -> tuple[Hit, ...]:
    """The first hits in order anew: each counts less beside better ones of the same place."""
    left = list(hits[:_MOST_PLACES])
    first: list[Hit] = []
    while left:
        best = max(left, key=lambda hit: hit.score * _BESIDE ** _count_beside(hit, first))
        left.remove(best)
        first.append(best)
    return (*first, *hits[_MOST_PLACES:])


def _count_beside(hit: Hit, others: Sequence[Hit]) -> int:
    return sum(_are_beside(hit, other) for other in others)


def _are_beside(hit: Hit, other: Hit) -> bool:
    """Whether two hits are different messages that stand close to each other."""
    if (hit.project, hit.session, hit.ref[:1]) != (other.project, other.session, other.ref[:1]):
        return False
    return hit.ref[:1] == "m" and 0 < abs(int(hit.ref[1:]) - int(other.ref[1:])) <= _NEAR
