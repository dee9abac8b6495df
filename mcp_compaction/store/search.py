"""Full-text search over the passages; any text is a safe query."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence

from mcp_compaction.model import Hit
from mcp_compaction.ports import Scope, SearchQuery
from mcp_compaction.store.columns import moment, stamp
from mcp_compaction.store.scope import Condition, check_session, one_session, rows_in

MAX_TERMS = 64
_RANKED = 4_000  # matches worth ranking; a question's common words alone would match them all

_Bounds = tuple[int, int]


def search(
    connection: sqlite3.Connection, scope: Scope, query: SearchQuery, limit: int
) -> tuple[Hit, ...]:
    """The passages that match best, one hit each."""
    check_session(connection, scope)
    bounds = _bounds(connection, scope)
    terms = _rarest(connection, phrases(query.terms), bounds)
    if not terms:
        return ()
    condition, narrowing = rows_in(scope, "passage"), _narrowing(query)
    rows = connection.execute(
        "SELECT coalesce(session.name, ''), passage.kind || passage.number, passage.role,"
        " passage.at, passage.text, best.rank FROM ("
        " SELECT passage.id AS id, bm25(passage_index) AS rank"
        " FROM passage_index CROSS JOIN passage ON passage.id = passage_index.rowid"
        " WHERE passage_index MATCH ? AND passage_index.rowid BETWEEN ? AND ?"
        f" AND {condition.sql} AND {narrowing.sql}"
        " ORDER BY 2, 1 DESC LIMIT ?"
        ") AS best JOIN passage ON passage.id = best.id"
        " LEFT JOIN session ON session.id = passage.session ORDER BY best.rank, best.id DESC",
        (" OR ".join(terms), *bounds, *condition.parameters, *narrowing.parameters, limit),
    )
    return tuple(
        Hit(session=name, ref=ref, role=role, at=moment(at), text=text, score=-rank)
        for name, ref, role, at, text, rank in rows
    )


_MATCHES = (
    " FROM passage_index CROSS JOIN passage ON passage.id = passage_index.rowid"
    " WHERE passage_index MATCH asked.value AND passage_index.rowid BETWEEN ? AND ?"
    " AND passage.session = ? AND passage.kind = 'm'"
)
_ANY = f"SELECT DISTINCT passage.number AS number {_MATCHES} LIMIT ?"
# A message may have several passages: it counts once, with its best.
_BEST = (
    f"SELECT passage.number AS number {_MATCHES} GROUP BY passage.number"
    " ORDER BY min(passage_index.rank), passage.number DESC LIMIT ?"
)


def search_many(
    connection: sqlite3.Connection, scope: Scope, queries: Sequence[SearchQuery], limit: int
) -> tuple[tuple[int, ...], ...]:
    """For each query the numbers of the messages of one session that match best."""
    session = one_session(connection, scope)
    inside = (*_bounds(connection, scope), session)
    asked = {number: " OR ".join(phrases(query.terms)) for number, query in enumerate(queries)}
    # Ranking weighs each phrase against the whole store, which is dear; where no more messages
    # match than are wanted there is nothing to choose.
    found = _match_all(connection, _ANY, asked, (*inside, limit + 1))
    many = {number: asked[number] for number, seqs in found.items() if len(seqs) > limit}
    found |= _match_all(connection, _BEST, many, (*inside, limit))
    return tuple(found.get(number, ()) for number in range(len(queries)))


def _match_all(
    connection: sqlite3.Connection, select: str, asked: dict[int, str], within: tuple[int, ...]
) -> dict[int, tuple[int, ...]]:
    rows = connection.execute(
        f"SELECT asked.key, (SELECT json_group_array(number) FROM ({select}))"
        " FROM json_each(?) AS asked WHERE asked.value <> ''",
        (*within, json.dumps(asked)),
    )
    return {int(key): tuple(json.loads(numbers)) for key, numbers in rows}


def phrases(terms: Sequence[str]) -> list[str]:
    """The terms as phrases of FTS5, in which no sign is an operator."""
    cleaned = (
        "".join(c for c in term if c != "\0" and not "\ud800" <= c <= "\udfff") for term in terms
    )
    unique = dict.fromkeys(term for term in cleaned if any(c.isalnum() for c in term))
    return ['"' + term.replace('"', '""') + '"' for term in unique][:MAX_TERMS]


def _bounds(connection: sqlite3.Connection, scope: Scope) -> _Bounds:
    """The first and last row a session's passages can have: the index skips all others."""
    if scope.session is None:
        return 0, 2**62
    row = connection.execute(
        "SELECT min(id), max(id) FROM passage WHERE session = ?", (scope.session,)
    ).fetchone()
    return (0, 0) if row[0] is None else (row[0], row[1])


def _rarest(connection: sqlite3.Connection, terms: list[str], bounds: _Bounds) -> list[str]:
    """The terms that tell most, rarest first, as many as can be ranked in reasonable time."""
    chosen: list[str] = []
    total = 0
    for count, term in sorted((_count(connection, term, bounds), term) for term in terms):
        total += count
        if chosen and total > _RANKED:
            break
        if count:
            chosen.append(term)
    return chosen


def _count(connection: sqlite3.Connection, term: str, bounds: _Bounds) -> int:
    (count,) = connection.execute(
        "SELECT count(*) FROM (SELECT 1 FROM passage_index"
        " WHERE passage_index MATCH ? AND rowid BETWEEN ? AND ? LIMIT ?)",
        (term, *bounds, _RANKED + 1),
    ).fetchone()
    return count


def _narrowing(query: SearchQuery) -> Condition:
    parts = Condition("TRUE", ())
    if query.roles:
        listed = json.dumps([role.lower() for role in query.roles])
        parts = _both(parts, "passage.role IN (SELECT value FROM json_each(?))", listed)
    if query.tools:
        listed = json.dumps([f"\n{tool.lower()}\n" for tool in query.tools])
        inside = "EXISTS (SELECT 1 FROM json_each(?) WHERE instr(passage.tools, value))"
        parts = _both(parts, inside, listed)
    if query.since is not None:
        parts = _both(parts, "passage.at >= ?", stamp(query.since))
    if query.until is not None:
        parts = _both(parts, "passage.at <= ?", stamp(query.until))
    return parts


def _both(condition: Condition, sql: str, parameter: str) -> Condition:
    return Condition(f"{condition.sql} AND {sql}", (*condition.parameters, parameter))
