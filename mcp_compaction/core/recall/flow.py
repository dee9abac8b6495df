"""One recall as a generator: it yields what it needs of the index and returns what was found. Of
decisions it answers with the newest first; one that a later one turned down is marked.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from itertools import islice, zip_longest
from typing import NamedTuple

from mcp_compaction.core.limits import MOST_TRIED
from mcp_compaction.core.log.decisions import find_decisions, subject_words, words_turned_down
from mcp_compaction.core.recall.query import Question, names_of_day, terms_of
from mcp_compaction.core.recall.rank import (
    MOST_READ,
    bring_together,
    is_unasked,
    loosen,
    rank,
    refine,
    similar_word,
)
from mcp_compaction.core.text.language import languages_of
from mcp_compaction.core.text.words import lower_words
from mcp_compaction.lexicon.languages import words_in_all
from mcp_compaction.model import Find, Hit, ListAll, Matches, Read, SearchQuery, SearchResult

Request = Find | Read | ListAll
Answer = Matches | tuple[Hit, ...]

_MOST_WEIGHED = 40  # hits among which decisions are weighed; with 100 one of 24 is not found again


def asks_for_decision(query: str) -> bool:
    """Whether a query wants to know what was settled, rather than all that was said."""
    return not words_in_all("words_of_deciding").isdisjoint(lower_words(query))


def mark_decisions(hits: Sequence[Hit], about: Sequence[str] | None = None) -> tuple[Hit, ...]:
    """The hits with a note on decisions that a later one turned down. Where a subject is asked for,
    decisions on it come first: what stands, the user's and the newest on top, then the others.

    Of several projects none decides for another.
    """
    if len({hit.project for hit in hits}) > 1:
        return tuple(hits)
    said = list(_decisions_of_hits(hits))
    taken_back = _find_taken_back(said)
    standing = {one.hit for number, one in enumerate(said) if number not in taken_back}
    by = {said[old].hit: hits[said[new].hit] for old, new in taken_back.items()}
    noted = [
        _note(hit, by[place]) if place in by and place not in standing else hit
        for place, hit in enumerate(hits)
    ]
    if about is None:
        return tuple(noted)
    covers = [_coverage_of(one.text, " ".join(about)) for one in said]
    for old, new in sorted(taken_back.items()):  # who takes a decision back speaks of the same
        covers[new] = max(covers[new], covers[old])
    ranks: dict[int, tuple[bool, int, bool, int]] = {}
    for number, one in enumerate(said):
        if covers[number]:
            rank = (number not in taken_back, covers[number], one.by == "user", number)
            ranks[one.hit] = max(rank, ranks.get(one.hit, rank))
    first = sorted(ranks, key=lambda place: ranks[place], reverse=True)
    return tuple(noted[place] for place in dict.fromkeys((*first, *range(len(hits)))))


def _note(hit: Hit, by: Hit) -> Hit:
    where = "" if by.session == hit.session else f" in session {by.session}"
    return hit.model_copy(update={"note": f"superseded by {by.ref}{where}"})


class _Statement(NamedTuple):
    """A decision in a hit, and whose it is."""

    hit: int  # the place of its hit
    by: str
    text: str


def _decisions_of_hits(hits: Sequence[Hit]) -> Iterator[_Statement]:
    """The decisions of the messages among the hits, from the oldest to the newest."""
    for place in sorted(range(len(hits)), key=lambda place: _time_of(hits[place])):
        hit = hits[place]
        if hit.role in ("user", "assistant"):
            for text in islice(find_decisions(hit.text, hit.role == "user"), MOST_TRIED):
                yield _Statement(place, hit.role, text)


def _time_of(hit: Hit) -> tuple[datetime, str, int]:
    at = hit.at or datetime.min.replace(tzinfo=UTC)
    number = int(hit.ref[1:]) if hit.ref[1:].isdecimal() else 0
    return at if at.tzinfo else at.replace(tzinfo=UTC), hit.session, number


def _find_taken_back(said: Sequence[_Statement]) -> dict[int, int]:
    """The number of each decision that was turned down, with that of the one that did so; an
    assistant turns down nothing that a user chose."""
    found: dict[int, int] = {}
    for newer, one in enumerate(said):
        for older, other in enumerate(said[:newer]):
            may = one.by == "user" or other.by != "user"
            if may and older not in found and _takes_back(one.text, other.text):
                found[older] = newer
    return found


class _Choice(NamedTuple):
    """The words of a decision, and those among them of what it turns down."""

    words: frozenset[str]
    refused: frozenset[str]


@lru_cache(maxsize=8_192)
def _read_decisions(text: str) -> _Choice:
    said = text.replace("’", "'").replace("`", "")
    languages = languages_of(said)
    refused = subject_words(" ".join(words_turned_down(said)), languages)
    return _Choice(subject_words(said, languages), refused)


def _takes_back(newer: str, older: str) -> bool:
    """Whether a later decision turns down what an earlier one took; a missed one costs far less
    than a false one."""
    refused, old = _read_decisions(newer).refused, _read_decisions(older)
    return bool(refused) and refused <= old.words - old.refused


def _coverage_of(decision: str, about: str) -> int:
    """How much of a subject a decision speaks of; 0 where it is beside it."""
    languages = languages_of(decision)  # the stems of the subject are those of the decision
    wanted = subject_words(about, languages)
    return len(wanted & _read_decisions(decision).words) if wanted else 1


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
