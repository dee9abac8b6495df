"""Asks a store where words stand, has them ranked, and reads what is worth it."""

from __future__ import annotations

from mcp_compaction.core.question import Question
from mcp_compaction.core.recall import loosened, near_word, rank, refine
from mcp_compaction.model import Hit, Value
from mcp_compaction.ports import Scope, SearchQuery, Store

_SHORTEST_START = 3  # letters that still say which word was meant
_MOST_TRIED = 5  # words of a question for which a nearer one is looked for


class Searched(Value):
    """What a question found, the best first, and how it was looked for."""

    hits: tuple[Hit, ...]
    messages: int  # among which it was looked for
    too_common: tuple[str, ...] = ()  # words of which only the newest places were ranked


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
    found = await store.find(scope, query)
    wider = loosened(question, found)
    if wider is not None:
        parts = await store.find(scope, query.model_copy(update={"terms": wider.terms}))
        question, found = wider, parts
    hits = await store.read(scope, query, rank(found))
    return Searched(
        hits=refine(question, hits),
        messages=found.total,
        too_common=tuple(terms.term for terms in found.terms if terms.is_cut),
    )


async def suggestion(store: Store, scope: Scope, question: Question) -> str | None:
    """A query that would find something: without its qualifiers, or with a word that stands."""
    bare = question.model_copy(update={"role": None, "tool": None, "since": None, "until": None})
    if bare != question:
        found = await store.find(scope, query_of(bare))
        if any(terms.places for terms in found.terms):
            return " ".join(bare.terms)
    for term in question.terms[:_MOST_TRIED]:
        word = await _nearest(store, scope, term)
        if word is not None:
            return word
    return None


async def _nearest(store: Store, scope: Scope, term: str) -> str | None:
    """A word that stands there and begins like a term."""
    for length in range(len(term) - 1, _SHORTEST_START - 1, -1):
        query = SearchQuery(terms=(term[:length],), is_start=True)
        found = await store.find(scope, query)
        if any(terms.places for terms in found.terms):
            return near_word(term, await store.read(scope, query, rank(found)))
    return None
