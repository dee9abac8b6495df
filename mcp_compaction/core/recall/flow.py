"""One recall as a generator: it yields what it needs of the index and returns what was found."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from itertools import zip_longest

from mcp_compaction.core.limits import MOST_TRIED
from mcp_compaction.core.recall.decisions import asks_for_decision, mark_decisions
from mcp_compaction.core.recall.judge import (
    bring_together,
    is_unasked,
    refine,
    similar_word,
)
from mcp_compaction.core.recall.query import Question, names_of_day, terms_of
from mcp_compaction.core.recall.rank import MOST_READ, loosen, rank
from mcp_compaction.model import Find, Hit, ListAll, Matches, Read, SearchQuery, Value

Request = Find | Read | ListAll
Answer = Matches | tuple[Hit, ...]

_MOST_WEIGHED = 40  # hits among which decisions are weighed; with 100 one of 24 is not found again


class SearchResult(Value):
    """What a question found, the best first, and how it was looked for."""

    hits: tuple[Hit, ...]
    messages: int  # among which it was looked for
    too_common: tuple[str, ...] = ()  # words of which only the newest places were ranked
    nowhere: tuple[str, ...] = ()  # words that stand nowhere there
    is_full: bool = False  # there are more than were ranked
    suggestion: str | None = None  # a query that would find something, where this one did not
    is_undated: bool = False  # of some of them only the time of recording is known


def search(question: Question) -> Generator[Request, Answer, SearchResult]:
    """The passages that answer a question best; names that stand nowhere count by their parts."""
    searched = yield from _search_words(question) if question.terms else _list_days(question)
    if not searched.hits and question.days and not question.terms:
        in_words = question.model_copy(update={"terms": terms_of(question.text), "days": ()})
        searched = yield from _search_words(in_words)
    if searched.hits:
        return searched
    suggestion = yield from _suggest(question)
    return searched.model_copy(update={"suggestion": suggestion})


def query_of(question: Question) -> SearchQuery:
    """What the index is asked for a question."""
    return SearchQuery(
        terms=question.terms,
        roles=(question.role,) if question.role else (),
        tools=(question.tool,) if question.tool else (),
        since=question.since,
        until=question.until,
    )


def _search_words(question: Question) -> Generator[Request, Answer, SearchResult]:
    query = query_of(question)
    found = yield from _find(query)
    nowhere = tuple(terms.term for terms in found.terms if not terms.places)
    wider = loosen(question, found)
    if wider is not None:
        question = wider
        found = yield from _find(query.model_copy(update={"terms": wider.terms}))
    read = yield from _read(query, found)
    hits = order_hits(question, read)
    about = question.terms if asks_for_decision(question.text) else None
    return SearchResult(
        hits=(*mark_decisions(hits[:_MOST_WEIGHED], about), *hits[_MOST_WEIGHED:]),
        messages=found.messages,
        too_common=tuple(terms.term for terms in found.terms if terms.is_cut),
        nowhere=nowhere,
        is_full=len(read) >= MOST_READ,
    )


def order_hits(question: Question, read: Sequence[Hit]) -> tuple[Hit, ...]:
    """The hits that answer a question, the best first, each beside what belongs to it."""
    ranked = refine(question, read)
    unasked = [hit for hit in read if is_unasked(question, hit)]
    return bring_together(question, ranked, unasked)


def _list_days(question: Question) -> Generator[Request, Answer, SearchResult]:
    """What was said at the time that a question names instead of words, in order; in turns with
    what names that time, which says so."""
    query = query_of(question)
    messages = (yield from _find(query)).messages
    said: list[Hit] = []
    naming: list[Hit] = []
    for day in question.days or (None,):
        within = {"since": day.begin, "until": day.end} if day else {}
        said += _hits_of((yield ListAll(query.model_copy(update=within), MOST_READ)))
        if day is not None:
            named = query.model_copy(update={"terms": names_of_day(day)})
            read = yield from _read(named, (yield from _find(named)))
            note = {"note": f"names {day.words}"}
            naming += [hit.model_copy(update=note) for hit in refine(question, read)]
    there = {(hit.session, hit.ref) for hit in said}
    naming = [hit for hit in naming if (hit.session, hit.ref) not in there and not hit.is_beside]
    pairs = zip_longest(said, naming)
    hits = [hit for pair in pairs for hit in pair if hit is not None]
    return SearchResult(
        hits=tuple(hits[:MOST_READ]),
        messages=messages,
        is_full=len(hits) >= MOST_READ,
        is_undated=any(hit.is_undated for hit in said),
    )


def _suggest(question: Question) -> Generator[Request, Answer, str | None]:
    """A query that would find something: without its qualifiers, or with a word that stands."""
    bare = question.model_copy(update={"role": None, "tool": None, "since": None, "until": None})
    if bare != question and bare.terms and _is_found((yield from _find(query_of(bare)))):
        return " ".join(bare.terms)
    for term in question.terms[:MOST_TRIED]:
        word = yield from _find_nearest_word(term)
        if word is not None:
            return word
    return None


def _find_nearest_word(term: str) -> Generator[Request, Answer, str | None]:
    """A word that stands there and begins like the first half of a term."""
    query = SearchQuery(terms=(term[: (len(term) + 1) // 2],), is_start=True)
    found = yield from _find(query)
    return similar_word(term, (yield from _read(query, found))) if _is_found(found) else None


def _find(query: SearchQuery) -> Generator[Request, Answer, Matches]:
    answer = yield Find(query)
    if not isinstance(answer, Matches):
        raise TypeError("a Find is answered by Matches")
    return answer


def _read(query: SearchQuery, found: Matches) -> Generator[Request, Answer, tuple[Hit, ...]]:
    return _hits_of((yield Read(query, rank(found))))


def _hits_of(answer: Answer) -> tuple[Hit, ...]:
    if isinstance(answer, Matches):
        raise TypeError("a Read or ListAll is answered by hits")
    return answer


def _is_found(found: Matches) -> bool:
    return any(terms.matches for terms in found.terms)
