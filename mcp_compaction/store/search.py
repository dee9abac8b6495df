"""Finds where words stand in the archive, and the user messages that may hold a text; any text is a
safe query.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache, singledispatch
from itertools import combinations
from typing import Any, NamedTuple

from mcp_compaction.core.limits import LONGEST_SENTENCE
from mcp_compaction.core.recall.query import MOST_TERMS
from mcp_compaction.core.recall.terms import Passage, PassageWords, Way, ways_of
from mcp_compaction.model import Hit, Match, Matches, SearchQuery, TermMatches, Worth
from mcp_compaction.ports import Original, PinFacts, Scope
from mcp_compaction.store import sessions
from mcp_compaction.store.log import originals
from mcp_compaction.store.marks import role_mark, session_mark, tool_mark
from mcp_compaction.store.scope import (
    Condition,
    check_session,
    one_session,
    project_of,
    rows_in,
    sessions_in,
)
from mcp_compaction.store.sql import Tx, moment, stamp

RANKED = 1_500  # matches worth ranking; a question's common words alone would match them all
COUNTED = 5_000  # passages, from which on one word or scope is as large as another
MOST_COMMON = 3  # of the words that stand in too many places, so many still tell something
SCANNED = 50_000  # newest matches of a common word that are looked at for times and scope
READ_AT_ONCE = 200_000  # newest passages of a session among which many queries are looked for
_KEPT_READ = 20_000  # passages of which the words are kept for the next search
MOST_MARKED = 200  # sessions of a scope that are named to the index

_SCANNED = 1_000  # newest passages with a piece of the text that are looked at
# Cuts between passages are half of one apart or more: of pieces half as long one is whole.
_PIECE_CHARS = LONGEST_SENTENCE // 4
_JOINT = re.compile(r"\s+|(?<=[。！？])")

_WITH_ALL = (
    "SELECT DISTINCT message.seq FROM passage_index"
    " CROSS JOIN passage ON passage.id = passage_index.rowid"
    " CROSS JOIN message ON message.session = passage.session AND message.seq = passage.number"
    " WHERE passage_index MATCH ? AND passage.session = ? AND passage.kind = 'm'"
    " AND message.role = 'user' ORDER BY message.via, message.seq LIMIT ?"
)
# Only a message of several passages can hold the text across a cut.
_WITH_A_PIECE = (
    "SELECT DISTINCT message.seq FROM (SELECT rowid AS id FROM passage_index"
    f" WHERE passage_index MATCH ? ORDER BY rowid DESC LIMIT {_SCANNED}) AS found"
    " CROSS JOIN passage ON passage.id = found.id"
    " CROSS JOIN message ON message.session = passage.session AND message.seq = passage.number"
    " WHERE passage.session = ? AND passage.kind = 'm' AND message.role = 'user'"
    " AND EXISTS (SELECT 1 FROM passage AS other"
    " WHERE other.session = passage.session AND other.kind = 'm'"
    " AND other.number = passage.number AND other.ordinal <> passage.ordinal)"
    " ORDER BY message.via, message.seq LIMIT ?"
)


class _Reach(NamedTuple):
    """The part of the index a query may see, and what is asked of its rows besides."""

    marks: str  # an expression of FTS5, or nothing
    own: str | None  # marks that alone say which rows those are, but for pins without a session
    condition: Condition


@singledispatch
def find(connection: sqlite3.Connection, scope: Scope, query: SearchQuery) -> Matches:
    """The passages that hold each term; of a very common term, the newest."""
    check_session(connection, scope)
    reach = _reach_of(connection, scope, query)
    asked = {term: words for term in query.terms if (words := _expression_of(term, query.is_start))}
    counts = {
        term: _count_passages(connection, expression, reach)
        for term, expression in list(asked.items())[:MOST_TERMS]
    }
    rarest = sorted((term for term in counts if counts[term]), key=lambda term: counts[term])
    telling = [term for n, term in enumerate(rarest) if can_rank(counts, rarest[: n + 1])]
    # Where every word is common: the newest places of the rarest, and where several stand.
    freely = telling or rarest[:MOST_COMMON]
    found = {term: _find_rows(connection, asked[term], reach) for term in freely}
    cut = tuple(term for term in freely if counts[term] > RANKED)
    for pair in combinations(cut, 2):
        both = _find_rows(connection, " AND ".join(f"({asked[term]})" for term in pair), reach)
        for term in pair:
            found[term] = tuple(dict.fromkeys((*found[term], *both)))
    # Beside rarer words a common one is looked for only where one of them stands.
    known = {match.row: match for term in telling for match in found[term]}
    anywhere = " OR ".join(f"({asked[term]})" for term in telling)
    for term in rarest[len(telling) :][:MOST_COMMON] if known else ():
        rows = _find_ids(connection, f"({anywhere}) AND ({asked[term]})", reach, min(known))
        found[term] = tuple(known[row] for row in rows if row in known)
    return Matches(
        terms=tuple(
            TermMatches(term, counts[term], found.get(term, ()), term in cut) for term in counts
        ),
        messages=_count_messages(connection, scope),
        passages=_count_all_passages(connection, scope),
    )


@singledispatch
def read(
    connection: sqlite3.Connection, scope: Scope, query: SearchQuery, wanted: Sequence[Worth]
) -> tuple[Hit, ...]:
    """The texts of what is worth reading, in that order; only what the query may see."""
    condition = _condition_of(scope, query)
    rows = connection.execute(
        f"SELECT wanted.key, {_HIT_COLUMNS}"
        " FROM json_each(?) AS wanted CROSS JOIN passage ON passage.id = coalesce("
        " json_extract(wanted.value, '$[1]'), (SELECT id FROM passage"
        " WHERE session = json_extract(wanted.value, '$[0]') AND kind = 'm'"
        " AND number = json_extract(wanted.value, '$[2]')"
        " AND ordinal = json_extract(wanted.value, '$[3]')))"
        " LEFT JOIN session ON session.id = passage.session"
        f" WHERE {condition.sql} ORDER BY wanted.key",
        (json.dumps([one[1:] for one in wanted]), *condition.parameters),
    )
    return tuple(_hit_of(columns, wanted[int(key)]) for key, *columns in rows)


@singledispatch
def list_passages(
    connection: sqlite3.Connection, scope: Scope, query: SearchQuery, limit: int
) -> tuple[Hit, ...]:
    """The passages that a query means by its qualifiers alone, in order."""
    check_session(connection, scope)
    condition = _condition_of(scope, query)
    rows = connection.execute(
        f"SELECT {_IS_UNDATED}, {_HIT_COLUMNS}"
        " FROM passage LEFT JOIN session ON session.id = passage.session"
        f" WHERE passage.kind = 'm' AND {condition.sql} ORDER BY passage.id LIMIT ?",
        (*condition.parameters, limit),
    )
    return tuple(
        _hit_of(columns).model_copy(update={"is_undated": bool(is_undated)})
        for is_undated, *columns in rows
    )


_IS_UNDATED = (  # asked only where a day is: it reads a row of the log for each passage
    "NOT EXISTS (SELECT 1 FROM message WHERE message.session = passage.session"
    " AND message.seq = passage.number AND message.at IS NOT NULL)"
)
_HIT_COLUMNS = (
    "session.name, passage.project, passage.kind || passage.number, passage.role, passage.at,"
    " passage.text, passage.ordinal, passage.tools <> '',"
    " passage.role = 'user' AND passage.kind = 'm' AND EXISTS (SELECT 1 FROM message WHERE"
    " message.session = passage.session AND message.seq = passage.number AND via = 'tool')"
)


def _hit_of(columns: Iterable[Any], worth: Worth | None = None) -> Hit:
    name, project, ref, role, at, text, ordinal, has_tool, is_told = columns
    return Hit(
        session=name or "",
        project=project_of(project or ""),
        ref=ref,
        role=role,
        at=moment(at),
        text=text,
        score=worth.score if worth else 0.0,
        is_beside=worth is not None and worth.row is None,
        ordinal=ordinal,
        has_tool=bool(has_tool),
        is_told=bool(is_told),
    )


@singledispatch
def search_many(
    connection: sqlite3.Connection, scope: Scope, queries: Sequence[SearchQuery], limit: int
) -> tuple[tuple[int, ...], ...]:
    """The newest messages of one session that hold a query's terms, by query."""
    session = one_session(connection, scope)
    rows = connection.execute(
        "SELECT number, text FROM passage WHERE session = ? AND kind = 'm'"
        " ORDER BY number DESC, id DESC LIMIT ?",
        (session, READ_AT_ONCE),
    )
    return find_messages_with_all(tuple(map(Passage._make, rows)), queries, limit)


def find_messages_with_all(
    passages: tuple[Passage, ...], queries: Sequence[SearchQuery], limit: int
) -> tuple[tuple[int, ...], ...]:
    """The newest messages that hold a query's terms, by query."""
    terms = [query.terms[:MOST_TERMS] for query in queries]
    read = _read_words if len(passages) <= _KEPT_READ else _read_words.__wrapped__
    return read(passages).find_messages_with_all(terms, limit)


@lru_cache(maxsize=1)  # a compaction that fills its room anew searches again
def _read_words(passages: tuple[Passage, ...]) -> PassageWords:
    return PassageWords(passages)


def _expression_of(term: str, is_start: bool = False) -> str:
    """A term as an expression of FTS5, in which no sign of it is an operator."""
    return " OR ".join(phrase for way in ways_of(term) if (phrase := _quote_phrase(way, is_start)))


def _quote_phrase(way: Way, is_start: bool) -> str:
    cleaned = re.sub("[\0\ud800-\udfff]", "", way.phrase).replace('"', '""')
    if not any(c.isalnum() for c in cleaned):
        return ""
    return f'"{cleaned}" *' if is_start or way.is_start else f'"{cleaned}"'


def can_rank(counts: dict[str, int], terms: Sequence[str]) -> bool:
    """Whether all places of some terms can be ranked."""
    return sum(counts[term] for term in terms) <= RANKED


def _reach_of(connection: sqlite3.Connection, scope: Scope, query: SearchQuery) -> _Reach:
    sessions = _find_session_marks(connection, scope)
    # A project's pins outlive their sessions.
    with_orphans = sessions and scope.session is None
    whose = f"{sessions} OR {session_mark(None)}" if with_orphans else sessions
    others = [
        " OR ".join(role_mark(role) for role in query.roles),
        " OR ".join(mark for tool in query.tools if (mark := tool_mark(tool))),
    ]
    is_whole = bool(sessions) and not (query.tools or query.since or query.until)
    return _Reach(
        marks=_join_marks(whose, *others),
        own=_join_marks(sessions, *others) if is_whole else None,
        condition=_condition_of(scope, query),
    )


def _join_marks(*marks: str) -> str:
    return " AND ".join(f"marks : ({mark})" for mark in marks if mark)


def _find_session_marks(connection: sqlite3.Connection, scope: Scope) -> str:
    """The sessions of a scope as marks of the index; too many are left to the condition."""
    if scope.project is None and scope.session is None:
        return ""
    condition = sessions_in(scope)
    rows = connection.execute(
        f"SELECT id FROM session WHERE {condition.sql} LIMIT ?",
        (*condition.parameters, MOST_MARKED + 1),
    ).fetchall()
    if len(rows) > MOST_MARKED:
        return ""
    return " OR ".join(session_mark(row[0]) for row in rows)


def _count_messages(connection: sqlite3.Connection, scope: Scope) -> int:
    """The number of messages in a scope."""
    condition = sessions_in(scope)
    (messages,) = connection.execute(
        f"SELECT total(last_seq) FROM session WHERE {condition.sql}", condition.parameters
    ).fetchone()
    return int(messages)


def _count_all_passages(connection: sqlite3.Connection, scope: Scope) -> int:
    """The number of passages in a scope, counted up to a limit."""
    condition = sessions_in(scope)
    (passages,) = connection.execute(
        "SELECT count(*) FROM (SELECT 1 FROM session CROSS JOIN passage"
        f" ON passage.session = session.id WHERE {condition.sql} LIMIT ?)",
        (*condition.parameters, COUNTED),
    ).fetchone()
    return passages


def _expression_with_marks(expression: str, marks: str) -> str:
    return " AND ".join(part for part in (f"{{text keys}} : ({expression})", marks) if part)


def _count_passages(connection: sqlite3.Connection, expression: str, reach: _Reach) -> int:
    """The number of passages that hold a term, counted up to a limit."""
    count = 0
    if reach.own is not None:
        (count,) = connection.execute(
            "SELECT count(*) FROM ("
            "SELECT 1 FROM passage_index WHERE passage_index MATCH ? LIMIT ?)",
            (_expression_with_marks(expression, reach.own), COUNTED),
        ).fetchone()
    if not count:  # row by row: nobody may learn what others say, not even how often
        (count,) = connection.execute(
            f"SELECT count(*) FROM (SELECT 1 {_FOUND} WHERE {reach.condition.sql} LIMIT ?)",
            (
                *(_expression_with_marks(expression, reach.marks), SCANNED),
                *(*reach.condition.parameters, RANKED + 1),
            ),
        ).fetchone()
    return count


# The newest places first; who they belong to, and when they were said, is looked up row by row.
_FOUND = (
    "FROM (SELECT rowid AS id FROM passage_index WHERE passage_index MATCH ?"
    " ORDER BY rowid DESC LIMIT ?) AS found CROSS JOIN passage ON passage.id = found.id"
)
# The passages of a message have ids in a row, and most messages have one passage.
_SIZE = (
    "passage.ordinal + 1 + CASE WHEN EXISTS (SELECT 1 FROM passage AS next WHERE"
    " next.id = passage.id + 1 AND next.session IS passage.session AND next.kind = passage.kind"
    " AND next.number = passage.number) THEN (SELECT max(id) FROM passage AS other WHERE"
    " other.session IS passage.session AND other.kind = passage.kind AND other.number ="
    " passage.number) - passage.id ELSE 0 END"
)


def _find_ids(
    connection: sqlite3.Connection, expression: str, reach: _Reach, oldest: int
) -> list[int]:
    """The rows that may hold an expression, the newest first, down to the oldest of interest."""
    rows = connection.execute(
        "SELECT rowid FROM passage_index WHERE passage_index MATCH ? AND rowid >= ?"
        " ORDER BY rowid DESC LIMIT ?",
        (_expression_with_marks(expression, reach.marks), oldest, SCANNED),
    )
    return [row for (row,) in rows]


def _find_rows(connection: sqlite3.Connection, expression: str, reach: _Reach) -> tuple[Match, ...]:
    rows = connection.execute(
        "SELECT passage.id, passage.session, passage.kind, passage.number,"
        f" length(passage.text), passage.ordinal, {_SIZE}, passage.tools <> ''"
        f" {_FOUND} WHERE {reach.condition.sql} LIMIT ?",
        (
            _expression_with_marks(expression, reach.marks),
            SCANNED,
            *reach.condition.parameters,
            RANKED,
        ),
    )
    return tuple(map(Match._make, rows))


def _condition_of(scope: Scope, query: SearchQuery) -> Condition:
    """The condition for the rows that a query may see."""
    parts = rows_in(scope, "passage")
    if query.roles:
        roles = json.dumps([role.lower() for role in query.roles])
        parts = _add_condition(parts, "passage.role IN (SELECT value FROM json_each(?))", roles)
    if query.tools:
        tools = json.dumps([f"\n{tool.lower()}\n" for tool in query.tools])
        inside = "EXISTS (SELECT 1 FROM json_each(?) WHERE instr(passage.tools, value))"
        parts = _add_condition(parts, inside, tools)
    if query.since is not None:
        parts = _add_condition(parts, "passage.at >= ?", stamp(query.since))
    if query.until is not None:
        parts = _add_condition(parts, "passage.at <= ?", stamp(query.until))
    return parts


def _add_condition(condition: Condition, sql: str, parameter: str) -> Condition:
    return Condition(f"{condition.sql} AND {sql}", (*condition.parameters, parameter))


def requests_with(tx: Tx, scope: Scope, text: str, limit: int) -> tuple[Original, ...]:
    """User messages of one session that may hold a text, those with all of it in one place first.

    Of each kind at most `limit`: the host's before an agent's, the oldest first.
    """
    session = one_session(tx, scope)
    pieces = pieces_of(text)
    seqs = list(dict.fromkeys(find_requests(tx, session, pieces, limit))) if pieces else []
    if not seqs:
        return ()
    found = originals(tx, scope, seqs, 0, len(seqs))
    by_seq = {original.message.seq: original for original in found}
    return tuple(by_seq[seq] for seq in seqs)


@singledispatch
def find_requests(tx: Tx, session: int, pieces: Sequence[str], limit: int) -> Iterator[int]:
    """The user messages with all pieces of a text together, then those with one of them."""
    for select, phrases in ((_WITH_ALL, [" ".join(pieces)]), (_WITH_A_PIECE, pieces)):
        rows = tx.execute(select, (_expression_of_pieces(phrases, session), session, limit))
        yield from (seq for (seq,) in rows)


def pin_facts(
    tx: Tx, scope: Scope, words: Sequence[str], limit: int, events: Sequence[str]
) -> PinFacts:
    """The facts that decide about a pin of one session."""
    session = one_session(tx, scope)
    found = [one for text in words for one in requests_with(tx, scope, text, limit)]
    return PinFacts(
        info=sessions.session_info(tx, session),
        said=tuple({one.message.seq: one.message for one in found}.values()),
        events=tuple(e for name in events for e in sessions.events(tx, session, name)),
    )


def _expression_of_pieces(phrases: Sequence[str], session: int) -> str:
    quoted = " OR ".join(f'"{phrase}"' for phrase in phrases)
    # What a host put into a user's message has passages of the system's.
    by = f"({role_mark('user')} OR {role_mark('system')})"
    marks = f"marks : {session_mark(session)} AND marks : {by}"
    return f"text : ({quoted}) AND {marks}"


def pieces_of(text: str) -> list[str]:
    """The text in pieces, two at least where it has two words, without quotation marks."""
    words = [
        word
        for word in _JOINT.split(text.replace('"', " "))
        if any(sign.isalnum() for sign in word)
    ]
    most = min(_PIECE_CHARS, len(" ".join(words)) // 2)
    pieces: list[str] = []
    for word in words:
        if pieces and len(pieces[-1]) < most:
            pieces[-1] += f" {word}"
        else:
            pieces.append(word)
    return pieces
