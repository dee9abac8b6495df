"""Asks a store where words stand, has them ranked, and reads what is worth it."""

from __future__ import annotations

from collections.abc import Sequence

from mcp_compaction.core.recall.decisions import asks_for_decision, chosen
from mcp_compaction.core.recall.query import Question
from mcp_compaction.core.recall.rank import (
    MOST_READ,
    decided,
    loosened,
    near_word,
    overtaken,
    rank,
    refine,
)
from mcp_compaction.model import Hit, Matches, Value
from mcp_compaction.ports import Scope, SearchQuery, Store

_SHORTEST_START, _LONGEST_START = 3, 30  # letters that still say which word was meant
_MOST_TRIED = 5  # words of a question for which a nearer one is looked for
_MOST_WEIGHED = 40  # hits among which decisions are weighed against each other
_MOST_MARKED = 15  # hits among which that is done though nobody asked for it
_MOST_CHOSEN = 6  # words of what was chosen, by which what took it back is found


class Searched(Value):
    """What a question found, the best first, and how it was looked for."""

    hits: tuple[Hit, ...]
    messages: int  # among which it was looked for
    too_common: tuple[str, ...] = ()  # words of which only the newest places were ranked
    nowhere: tuple[str, ...] = ()  # words that stand nowhere there
    is_full: bool = False  # there are more than were ranked


def query_of(question: Question) -> SearchQuery:
    """What the store is asked for a question."""
    return SearchQuery(
        terms=question.terms,
        roles=(question.role,) if question.role else (),
        tools=(question.tool,) if question.tool else (),
        since=question.since,
        until=question.until,
    )


async def search(store: Store, scope: Scope, question: Question) -> Searched:
    """The passages that answer a question best; names that stand nowhere count by their parts."""
    query = query_of(question)
    if not question.terms:
        return await _listed(store, scope, question)
    found = await store.find(scope, query)
    nowhere = tuple(terms.term for terms in found.terms if not terms.places)
    wider = loosened(question, found)
    if wider is not None:
        question = wider
        found = await store.find(scope, query.model_copy(update={"terms": wider.terms}))
    read = await _read(store, scope, query, found)
    hits = await _with_decisions(store, scope, question, refine(question, read))
    return Searched(
        hits=hits,
        messages=found.total,
        too_common=tuple(terms.term for terms in found.terms if terms.is_cut),
        nowhere=nowhere,
        is_full=len(read) >= MOST_READ,
    )


async def suggestion(store: Store, scope: Scope, question: Question) -> str | None:
    """A query that would find something: without its qualifiers, or with a word that stands."""
    bare = question.model_copy(update={"role": None, "tool": None, "since": None, "until": None})
    if bare != question and bare.terms and _stands(await store.find(scope, query_of(bare))):
        return " ".join(bare.terms)
    for term in question.terms[:_MOST_TRIED]:
        word = await _nearest(store, scope, term)
        if word is not None:
            return word
    return None


async def _listed(store: Store, scope: Scope, question: Question) -> Searched:
    """What was said at the time that a question names instead of words, in order."""
    query = query_of(question)
    found = await store.find(scope, query)
    hits: list[Hit] = []
    for day in question.days or (None,):
        within = {"since": day.begin, "until": day.end} if day else {}
        hits += await store.listed(scope, query.model_copy(update=within), MOST_READ)
    return Searched(
        hits=tuple(hits[:MOST_READ]), messages=found.total, is_full=len(hits) >= MOST_READ
    )


async def _with_decisions(
    store: Store, scope: Scope, question: Question, hits: Sequence[Hit]
) -> tuple[Hit, ...]:
    """Decisions that were taken back marked so and, if asked for, the one that stands on top."""
    if not asks_for_decision(question.text):
        return (*overtaken(hits[:_MOST_MARKED]), *hits[_MOST_MARKED:])
    weighed, rest = hits[:_MOST_WEIGHED], hits[_MOST_WEIGHED:]
    # Who takes a decision back may name only what was chosen: "not Lisbon after all".
    words = chosen(weighed)[:_MOST_CHOSEN]
    query = query_of(question).model_copy(update={"terms": words})
    read = await _read(store, scope, query, await store.find(scope, query)) if words else ()
    known = {(hit.session, hit.ref) for hit in weighed}
    later = [hit for hit in read if (hit.session, hit.ref) not in known][:_MOST_WEIGHED]
    return (*decided(question, (*weighed, *later)), *rest)


async def _nearest(store: Store, scope: Scope, term: str) -> str | None:
    """A word that stands there and begins like a term."""
    for length in range(min(len(term) - 1, _LONGEST_START), _SHORTEST_START - 1, -1):
        query = SearchQuery(terms=(term[:length],), is_start=True)
        found = await store.find(scope, query)
        if _stands(found):
            return near_word(term, await _read(store, scope, query, found))
    return None


async def _read(store: Store, scope: Scope, query: SearchQuery, found: Matches) -> tuple[Hit, ...]:
    return await store.read(scope, query, rank(found))


def _stands(found: Matches) -> bool:
    return any(terms.matches for terms in found.terms)
