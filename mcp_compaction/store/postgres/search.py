"""Finds where words stand in the archive, by its terms; any text is a safe query."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import NamedTuple

from mcp_compaction.core.recall.query import MOST_TERMS
from mcp_compaction.core.recall.terms import Passage, ways_of
from mcp_compaction.model import Hit, Match, Matches, SearchQuery, TermMatches, Worth
from mcp_compaction.ports import Scope
from mcp_compaction.store.postgres.database import PgRow, PgTx
from mcp_compaction.store.postgres.dialect import plain, plain_cell
from mcp_compaction.store.postgres.passages import tokenize, unpack_places
from mcp_compaction.store.scope import Condition, check_session, one_session, rows_in, sessions_in
from mcp_compaction.store.search import (
    COUNTED,
    MOST_COMMON,
    MOST_MARKED,
    RANKED,
    READ_AT_ONCE,
    SCANNED,
    can_rank,
    find_messages_with_all,
)
from mcp_compaction.store.sql import moment, stamp

_LAST_SIGN = "\U0010ffff"


class Phrase(NamedTuple):
    """Terms that stand side by side; whatever begins with the last one may be meant."""

    terms: tuple[str, ...]
    is_start: bool = False


class _Asked(NamedTuple):
    """A term of a query by the phrases that stand for it."""

    phrases: tuple[Phrase, ...]

    @property
    def is_plain(self) -> bool:
        """Whether it is one term of the postings, so that these alone tell where it stands."""
        return (
            len(self.phrases) == 1
            and not self.phrases[0].is_start
            and len(self.phrases[0].terms) == 1
        )


class Place(NamedTuple):
    """A passage by its key in the postings."""

    session: int
    passage: int


class _Reach(NamedTuple):
    """The part of the postings a query may see, and what is asked of its rows besides."""

    sessions: list[int] | None  # None: all, or too many to name
    condition: str
    values: dict[str, object]
    is_whole: bool  # the sessions alone say which rows those are, but for pins without one


def find(tx: PgTx, scope: Scope, query: SearchQuery) -> Matches:
    """The passages that hold each term; of a very common term, the newest."""
    check_session(tx, scope)
    reach = _reach_of(tx, scope, query)
    phrases = phrases_of(query.terms, query.is_start)
    asked = {term: _Asked(found) for term, found in zip(query.terms, phrases, strict=True) if found}
    asked = dict(list(asked.items())[:MOST_TERMS])
    search = _Search(tx, reach)
    counts = search.count(asked)
    rarest = sorted((term for term in counts if counts[term]), key=lambda term: counts[term])
    telling = [term for n, term in enumerate(rarest) if can_rank(counts, rarest[: n + 1])]
    # Where every word is common: the newest places of the rarest, and where several stand.
    freely = telling or rarest[:MOST_COMMON]
    found = {term: search.find(asked[term]) for term in freely}
    cut = tuple(term for term in freely if counts[term] > RANKED)
    for one, other in combinations(cut, 2):
        both = search.find_both(asked[one], asked[other])
        for term in (one, other):
            found[term] = tuple(dict.fromkeys((*found[term], *both)))
    # Beside rarer words a common one is looked for only where one of them stands.
    known = {match.row: match for term in telling for match in found[term]}
    for term in rarest[len(telling) :][:MOST_COMMON] if known else ():
        rows = search.find_among(asked[term], known.values())
        found[term] = tuple(known[row] for row in rows)
    return Matches(
        terms=tuple(
            TermMatches(term, counts[term], found.get(term, ()), term in cut) for term in counts
        ),
        messages=_count_messages(tx, scope),
        passages=_count_all_passages(tx, scope),
    )


def phrases_of(terms: Sequence[str], is_start: bool) -> list[tuple[Phrase, ...]]:
    """For each term of a query the phrases that stand for it, in terms of the postings."""
    ways = [(n, way) for n, term in enumerate(terms) for way in ways_of(term)]
    words = terms_of([way.phrase for _, way in ways])
    found: list[list[Phrase]] = [[] for _ in terms]
    for (n, way), listed in zip(ways, words, strict=True):
        if listed:
            found[n].append(Phrase(listed, is_start or way.is_start))
    return [tuple(dict.fromkeys(phrases)) for phrases in found]


def terms_of(texts: Sequence[str]) -> list[tuple[str, ...]]:
    """The terms of texts in the order in which they stand there."""
    cleaned = [re.sub("[\0\ud800-\udfff]", "", text) for text in texts]
    placed: list[list[tuple[int, str]]] = [[] for _ in texts]
    for term, number, place in tokenize([(text, "") for text in cleaned]):
        placed[number].append((place, term))
    return [tuple(plain(term) for _, term in sorted(listed)) for listed in placed]


class _Search:
    """Looks terms up in the part of the postings that a query may see."""

    def __init__(self, tx: PgTx, reach: _Reach) -> None:
        self._tx = tx
        self._reach = reach
        self._places: dict[_Asked, list[Place]] = {}

    def count(self, asked: dict[str, _Asked]) -> dict[str, int]:
        """For each term the passages that hold it, counted up to a limit."""
        counts = dict.fromkeys(asked, 0)
        if self._reach.is_whole:
            plain_ones = [term for term in asked if asked[term].is_plain]
            rows = self._tx.all(
                "SELECT asked.number, (SELECT count(*) FROM (SELECT 1 FROM posting"
                " WHERE posting.owner = %(owner)s AND posting.term = asked.term"
                " AND posting.session = ANY(%(sessions)s) LIMIT %(limit)s) AS held) AS places"
                " FROM unnest(%(terms)s::text[]) WITH ORDINALITY AS asked (term, number)",
                sessions=self._reach.sessions,
                limit=COUNTED,
                terms=[asked[term].phrases[0].terms[0] for term in plain_ones],
            )
            for row in rows:
                counts[plain_ones[row["number"] - 1]] = row["places"]
            for term in asked:
                if not asked[term].is_plain and self._reach.sessions:
                    here = set(self._reach.sessions)
                    places = self._places_of(asked[term])
                    counts[term] = min(COUNTED, sum(place.session in here for place in places))
        for term, count in counts.items():
            if not count:  # row by row: nobody may learn what others say, not even how often
                counts[term] = len(self._read_rows(asked[term], RANKED + 1))
        return counts

    def find(self, asked: _Asked) -> tuple[Match, ...]:
        """The newest passages that hold a term."""
        return self._read_rows(asked, RANKED)

    def find_both(self, one: _Asked, other: _Asked) -> tuple[Match, ...]:
        """The newest passages that hold both terms."""
        there = set(self._places_of(other))
        both = [place for place in self._places_of(one) if place in there]
        return self._read_places(both, RANKED)

    def find_among(self, asked: _Asked, known: Iterable[Match]) -> list[int]:
        """Those of some passages that hold a term, the newest first."""
        listed = [Place(match.session or 0, match.row) for match in known]
        if not asked.is_plain:
            there = set(self._places_of(asked))
            return sorted((p.passage for p in listed if p in there), reverse=True)
        rows = self._tx.all(
            "SELECT posting.passage FROM unnest(%(sessions)s::bigint[], %(passages)s::bigint[])"
            " AS known (session, passage) JOIN posting ON posting.owner = %(owner)s"
            " AND posting.term = %(term)s AND posting.session = known.session"
            " AND posting.passage = known.passage ORDER BY posting.passage DESC",
            sessions=[place.session for place in listed],
            passages=[place.passage for place in listed],
            term=asked.phrases[0].terms[0],
        )
        return [row["passage"] for row in rows]

    def _read_rows(self, asked: _Asked, limit: int) -> tuple[Match, ...]:
        if not asked.is_plain:
            return self._read_places(self._places_of(asked), limit)
        rows = self._tx.all(
            f"SELECT {_MATCH} FROM posting JOIN passage ON passage.owner = %(owner)s"
            " AND passage.id = posting.passage WHERE posting.owner = %(owner)s"
            f" AND posting.term = %(term)s AND {_IN_SESSIONS} AND {self._reach.condition}"
            " ORDER BY posting.passage DESC LIMIT %(limit)s",
            **self._reach.values,
            sessions=self._reach.sessions,
            term=asked.phrases[0].terms[0],
            limit=limit,
        )
        return tuple(map(_match_of, rows))

    def _read_places(self, places: Sequence[Place], limit: int) -> tuple[Match, ...]:
        if not places:
            return ()
        rows = self._tx.all(
            f"SELECT {_MATCH} FROM passage WHERE passage.owner = %(owner)s"
            f" AND passage.id = ANY(%(passages)s) AND {self._reach.condition}"
            " ORDER BY passage.id DESC LIMIT %(limit)s",
            **self._reach.values,
            passages=[place.passage for place in places],
            limit=limit,
        )
        return tuple(map(_match_of, rows))

    def _places_of(self, asked: _Asked) -> list[Place]:
        """The newest passages that hold a term, among the sessions that can be named."""
        if asked not in self._places:
            found: set[Place] = set()
            for phrase in asked.phrases:
                found |= set(find_phrase(self._tx, phrase, self._reach.sessions))
            self._places[asked] = sorted(found, key=lambda place: -place.passage)[:SCANNED]
        return self._places[asked]


# Pins that have outlived their session are in session 0.
_IN_SESSIONS = "(%(sessions)s::bigint[] IS NULL OR posting.session = ANY(%(sessions)s::bigint[]))"
_MATCH = (
    "passage.id, passage.session, passage.kind, passage.number, passage.chars, passage.ordinal,"
    " passage.size, passage.tools <> '' AS has_tool"
)


def _match_of(row: PgRow) -> Match:
    return Match(
        row["id"],
        row["session"] or None,
        *(row["kind"], row["number"], row["chars"], row["ordinal"], row["size"], row["has_tool"]),
    )


_PLACES = (
    "SELECT posting.session, posting.passage, posting.term, posting.places"
    " FROM unnest(%(of)s::bigint[], %(passages)s::bigint[]) AS likely (session, passage)"
    " JOIN posting ON posting.owner = %(owner)s AND posting.session = likely.session"
    " AND posting.passage = likely.passage"
)


def find_phrase(
    tx: PgTx, phrase: Phrase, sessions: list[int] | None, limit: int = SCANNED, upto: int = 1 << 16
) -> list[Place]:
    """The newest passages that hold a phrase; `upto`: before this place in them."""
    *before, last = phrase.terms
    if not before:
        rows = tx.all(
            "SELECT DISTINCT session, passage FROM posting WHERE owner = %(owner)s"
            f" AND term >= %(low)s AND term <= %(high)s AND {_IN_SESSIONS}"
            " ORDER BY passage DESC LIMIT %(limit)s",
            low=last,
            high=last + _LAST_SIGN if phrase.is_start else last,
            sessions=sessions,
            limit=limit,
        )
        return [Place(row["session"], row["passage"]) for row in rows]
    sure = sorted({*before, *(() if phrase.is_start else (last,))})
    rarest = _find_rarest(tx, sure, sessions)
    likely = find_phrase(tx, Phrase((rarest,)), sessions)
    keys = {
        "of": [place.session for place in likely],
        "passages": [place.passage for place in likely],
    }
    # Term by term, so that each is looked up by the one index there is.
    rows = tx.all(f"{_PLACES} AND posting.term = ANY(%(terms)s)", **keys, terms=sure)
    if phrase.is_start:
        rows += tx.all(
            f"{_PLACES} AND posting.term >= %(low)s AND posting.term <= %(high)s",
            **keys,
            low=last,
            high=last + _LAST_SIGN,
        )
    held: dict[Place, dict[str, set[int]]] = {}
    for row in rows:
        places = {place for place in unpack_places(row["places"]) if place < upto}
        of = held.setdefault(Place(row["session"], row["passage"]), {})
        if row["term"] in sure:
            of.setdefault(row["term"], set()).update(places)
        if phrase.is_start and row["term"].startswith(last):
            of.setdefault("", set()).update(places)
    found = [place for place, terms in held.items() if _stands_in(phrase, terms)]
    return sorted(found, key=lambda place: -place.passage)[:limit]


def _stands_in(phrase: Phrase, terms: dict[str, set[int]]) -> bool:
    """Whether a phrase stands side by side in a passage, by the places of its terms."""
    words = [*phrase.terms[:-1], "" if phrase.is_start else phrase.terms[-1]]
    ways = terms.get(words[0], set())
    for n, word in enumerate(words[1:], start=1):
        there = terms.get(word, set())
        ways = {start for start in ways if start + n in there}
    return bool(ways)


def _find_rarest(tx: PgTx, terms: Sequence[str], sessions: list[int] | None) -> str:
    """The rarest of some terms, each counted up to a limit."""
    row = tx.one(
        "SELECT asked.term, (SELECT count(*) FROM (SELECT 1 FROM posting"
        f" WHERE posting.owner = %(owner)s AND posting.term = asked.term AND {_IN_SESSIONS}"
        " LIMIT %(limit)s) AS held) AS places FROM unnest(%(terms)s::text[]) AS asked (term)"
        " ORDER BY places LIMIT 1",
        sessions=sessions,
        limit=COUNTED,
        terms=list(terms),
    )
    return terms[0] if row is None else row["term"]


def _reach_of(tx: PgTx, scope: Scope, query: SearchQuery) -> _Reach:
    condition, values = _condition_of(scope, query)
    sessions: list[int] | None = None
    if scope.project is not None or scope.session is not None:
        rows = tx.all(
            f"SELECT id FROM session WHERE owner = %(owner)s AND {_marked(sessions_in(scope))}"
            " LIMIT %(limit)s",
            **_values_of(scope),
            limit=MOST_MARKED + 1,
        )
        if len(rows) <= MOST_MARKED:
            sessions = [row["id"] for row in rows]
    is_whole = bool(sessions) and not (query.tools or query.since or query.until or query.roles)
    if sessions is not None and scope.session is None:
        sessions.append(0)  # a project's pins outlive their sessions
    return _Reach(sessions, condition, values, is_whole)


def _condition_of(scope: Scope, query: SearchQuery) -> tuple[str, dict[str, object]]:
    """The condition for the rows that a query may see."""
    values = _values_of(scope)
    parts = [_marked(rows_in(scope, "passage"))]
    if query.roles:
        parts.append("passage.role = ANY(%(roles)s)")
        values["roles"] = [plain(role.lower()) for role in query.roles]
    if query.tools:
        parts.append(
            "EXISTS (SELECT 1 FROM unnest(%(tools)s::text[]) AS asked (tool)"
            " WHERE strpos(passage.tools, asked.tool) > 0)"
        )
        values["tools"] = [f"\n{plain(tool.lower())}\n" for tool in query.tools]
    if query.since is not None:
        parts.append("passage.at >= %(since)s")
        values["since"] = stamp(query.since)
    if query.until is not None:
        parts.append("passage.at <= %(until)s")
        values["until"] = stamp(query.until)
    return " AND ".join(parts), values


def _marked(condition: Condition) -> str:
    """The condition of a scope, its values by the names that `_values_of` gives them."""
    numbers = itertools.count()
    return re.sub(r"\?", lambda _: f"%(scope{next(numbers)})s", condition.sql)


def _values_of(scope: Scope) -> dict[str, object]:
    values = sessions_in(scope).parameters
    return {f"scope{number}": plain_cell(value) for number, value in enumerate(values)}


def _count_messages(tx: PgTx, scope: Scope) -> int:
    """The number of messages in a scope."""
    row = tx.one(
        "SELECT coalesce(sum(last_seq), 0)::bigint AS messages FROM session"
        f" WHERE owner = %(owner)s AND {_marked(sessions_in(scope))}",
        **_values_of(scope),
    )
    return 0 if row is None else row["messages"]


def _count_all_passages(tx: PgTx, scope: Scope) -> int:
    """The number of passages in a scope, counted up to a limit."""
    row = tx.one(
        "SELECT count(*) AS passages FROM (SELECT 1 FROM session JOIN passage"
        " ON passage.owner = %(owner)s AND passage.session = session.id"
        f" WHERE session.owner = %(owner)s AND {_marked(sessions_in(scope))}"
        " LIMIT %(limit)s) AS found",
        **_values_of(scope),
        limit=COUNTED,
    )
    return 0 if row is None else row["passages"]


_HIT = (
    "session.name, passage.project, passage.kind || passage.number AS ref, passage.role,"
    " passage.at, passage.text, passage.ordinal, passage.tools <> '' AS has_tool,"
    " passage.role = 'user' AND passage.kind = 'm' AND EXISTS (SELECT 1 FROM message"
    " WHERE message.owner = %(owner)s AND message.session = passage.session"
    " AND message.seq = passage.number AND message.via = 'tool') AS is_told"
)


def read(tx: PgTx, scope: Scope, query: SearchQuery, wanted: Sequence[Worth]) -> tuple[Hit, ...]:
    """The texts of what is worth reading, in that order; only what the query may see."""
    condition, values = _condition_of(scope, query)
    rows = tx.all(
        f"SELECT wanted.place, {_HIT} FROM unnest(%(of)s::bigint[], %(ids)s::bigint[],"
        " %(numbers)s::bigint[], %(ordinals)s::bigint[]) WITH ORDINALITY"
        " AS wanted (session, id, number, ordinal, place)"
        " JOIN LATERAL (SELECT * FROM passage WHERE passage.owner = %(owner)s"
        " AND passage.id = coalesce(wanted.id, (SELECT beside.id FROM passage AS beside"
        " WHERE beside.owner = %(owner)s AND beside.session = wanted.session"
        " AND beside.kind = 'm' AND beside.number = wanted.number"
        " AND beside.ordinal = wanted.ordinal LIMIT 1))) AS passage ON true"
        " LEFT JOIN session ON session.owner = %(owner)s AND session.id = passage.session"
        f" WHERE {condition} ORDER BY wanted.place",
        **values,
        of=[one.session for one in wanted],
        ids=[one.row for one in wanted],
        numbers=[one.number for one in wanted],
        ordinals=[one.ordinal for one in wanted],
    )
    return tuple(_hit_of(row, wanted[int(row["place"]) - 1]) for row in rows)


def list_passages(tx: PgTx, scope: Scope, query: SearchQuery, limit: int) -> tuple[Hit, ...]:
    """The passages that a query means by its qualifiers alone, in order."""
    check_session(tx, scope)
    condition, values = _condition_of(scope, query)
    rows = tx.all(
        f"SELECT {_HIT}, NOT EXISTS (SELECT 1 FROM message WHERE message.owner = %(owner)s"
        " AND message.session = passage.session AND message.seq = passage.number"
        " AND message.at IS NOT NULL) AS is_undated"
        " FROM passage LEFT JOIN session ON session.owner = %(owner)s"
        " AND session.id = passage.session WHERE passage.owner = %(owner)s"
        f" AND passage.kind = 'm' AND {condition} ORDER BY passage.id LIMIT %(limit)s",
        **values,
        limit=limit,
    )
    return tuple(_hit_of(row).model_copy(update={"is_undated": row["is_undated"]}) for row in rows)


def _hit_of(row: PgRow, worth: Worth | None = None) -> Hit:
    return Hit(
        session=row["name"] or "",
        project=row["project"] or "",
        ref=row["ref"],
        role=row["role"],
        at=moment(row["at"]),
        text=row["text"].decode(),
        score=worth.score if worth else 0.0,
        is_beside=worth is not None and worth.row is None,
        ordinal=row["ordinal"],
        has_tool=row["has_tool"],
        is_told=row["is_told"],
    )


def search_many(
    tx: PgTx, scope: Scope, queries: Sequence[SearchQuery], limit: int
) -> tuple[tuple[int, ...], ...]:
    """The newest messages of one session that hold a query's terms, by query."""
    session = one_session(tx, scope)
    rows = tx.all(
        "SELECT number, text FROM passage WHERE owner = %(owner)s"
        " AND session = %(session)s AND kind = 'm' ORDER BY number DESC, id DESC LIMIT %(limit)s",
        session=session,
        limit=READ_AT_ONCE,
    )
    return _find_messages_with_all(rows, queries, limit)


def _find_messages_with_all(
    rows: Sequence[PgRow], queries: Sequence[SearchQuery], limit: int
) -> tuple[tuple[int, ...], ...]:
    passages = (Passage(row["number"], row["text"].decode()) for row in rows)
    return find_messages_with_all(tuple(passages), queries, limit)
