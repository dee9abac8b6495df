"""Spreads the first hits over the things that a question names."""

from __future__ import annotations

import re
from collections.abc import Sequence

from mcp_compaction.core.recall.query import Question
from mcp_compaction.core.recall.terms import closeness_of, is_name
from mcp_compaction.model import Hit

_FIRST = 5  # hits in which each thing that the question names has its turn
_MOST_TURNS = 30  # hits among which one with that thing is looked for
_WORTH = 0.3  # of the best score, which a hit needs to have its turn


def spread(question: Question, hits: Sequence[Hit]) -> tuple[Hit, ...]:
    """The hits with the things that a question names in turns."""
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
