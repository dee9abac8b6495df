"""The texts that a search finds, and the terms they are found by, in one statement."""

from __future__ import annotations

import sqlite3
import struct
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from typing import Any, NamedTuple

from mcp_compaction.core.recall.terms import keys_of
from mcp_compaction.store.passages import StoredPassage
from mcp_compaction.store.postgres.database import PgRow, PgTx
from mcp_compaction.store.postgres.dialect import plain
from mcp_compaction.store.sql import encodable

KEYS_FROM = 1 << 15  # a place from which on it is one among the keys, not in the text
_REBUILT_AT_ONCE = 2_000
_INSERTED_AT_ONCE = 200

Places = tuple[int, ...]


class Posting(NamedTuple):
    """A term, the text that holds it by its number, and where in it."""

    term: str
    text: int
    places: bytes


def tokenize(texts: Sequence[tuple[str, str]]) -> list[tuple[str, int, int]]:
    """The terms of texts and their keys: each with the number of its text and its place there.

    They are those of the other store, because it is the same tokenizer; only an index gives access
    to it.
    """
    with closing(sqlite3.connect(":memory:")) as index:
        index.execute(
            "CREATE VIRTUAL TABLE said USING fts5 (text, keys, content = '', tokenize ="
            " 'porter unicode61')"
        )
        index.execute("CREATE VIRTUAL TABLE term USING fts5vocab (said, instance)")
        index.executemany(
            "INSERT INTO said (rowid, text, keys) VALUES (?, ?, ?)",
            ((number, *both) for number, both in enumerate(texts)),
        )
        rows = index.execute("SELECT term, doc, col, offset FROM term")
        return [
            (term, number, place + (KEYS_FROM if column == "keys" else 0))
            for term, number, column, place in rows
            if place < KEYS_FROM
        ]


def postings_of(texts: Sequence[str]) -> list[Posting]:
    """The postings of some texts."""
    found: dict[tuple[str, int], list[int]] = {}
    for term, number, place in tokenize([(text, keys_of(text)) for text in texts]):
        found.setdefault((plain(term), number), []).append(place)
    return [Posting(*key, pack_places(places)) for key, places in found.items()]


def pack_places(places: Iterable[int]) -> bytes:
    """Places as bytes, two each, in order."""
    listed = sorted(places)
    return struct.pack(f">{len(listed)}H", *listed)


def unpack_places(data: bytes) -> Places:
    """The places of such bytes."""
    return struct.unpack(f">{len(data) // 2}H", data)


def insert(tx: PgTx, texts: Sequence[StoredPassage]) -> None:
    """Make texts findable; of many, some at a time, so that others are answered in between."""
    sizes = Counter((one.session, one.kind, one.number) for one in texts)
    for start in range(0, len(texts), _INSERTED_AT_ONCE):
        part = texts[start : start + _INSERTED_AT_ONCE]
        tx.run(_INSERT, **_columns_of(part, sizes))


def _columns_of(
    given: Sequence[StoredPassage], sizes: Mapping[tuple[int | None, str, int], int]
) -> dict[str, list[Any]]:
    texts = [encodable(passage.text) for passage in given]
    postings = postings_of(texts)
    return {
        "sessions": [passage.session or 0 for passage in given],
        "projects": [None if one.project is None else plain(one.project) for one in given],
        "kinds": [passage.kind for passage in given],
        "numbers": [passage.number for passage in given],
        "ordinals": [passage.ordinal for passage in given],
        "sizes": [sizes[one.session, one.kind, one.number] for one in given],
        "chars": [len(text.partition("\0")[0]) for text in texts],
        "roles": [plain(passage.role) for passage in given],
        "ats": [passage.at for passage in given],
        "tools": ["".join(f"\n{plain(tool).lower()}\n" for tool in one.tools) for one in given],
        "texts": [text.encode() for text in texts],
        "terms": [posting.term for posting in postings],
        "of": [posting.text + 1 for posting in postings],
        "places": [posting.places for posting in postings],
    }


# The ids come in the order of the texts; a text is told from the others by what it belongs to.
# Arrays go in binary: as text each of thousands of terms would be quoted on its own.
_INSERT = """
    WITH given AS (
        SELECT * FROM unnest(
            %(sessions)b::bigint[], %(projects)b::text[], %(kinds)b::text[], %(numbers)b::bigint[],
            %(ordinals)b::bigint[], %(sizes)b::bigint[], %(chars)b::bigint[], %(roles)b::text[],
            %(ats)b::text[], %(tools)b::text[], %(texts)b::bytea[]
        ) WITH ORDINALITY AS given (
            session, project, kind, number, ordinal, size, chars, role, at, tools, text, place
        )
    ), made AS (
        INSERT INTO passage (
            owner, session, project, kind, number, ordinal, size, chars, role, at, tools, text
        )
        SELECT %(owner)s, session, project, kind, number, ordinal, size, chars, role, at, tools,
            text
        FROM given ORDER BY place
        RETURNING id, session, kind, number, ordinal
    )
    INSERT INTO posting (owner, term, session, passage, places)
    SELECT %(owner)s, found.term, made.session, made.id, found.places
    FROM unnest(%(terms)b::text[], %(of)b::bigint[], %(places)b::bytea[])
        AS found (term, place, places)
    JOIN given USING (place)
    JOIN made ON made.session = given.session AND made.kind = given.kind
        AND made.number = given.number AND made.ordinal = given.ordinal
"""


def delete(tx: PgTx, session: int | None, kind: str, number: int) -> None:
    """Make the texts of a message, digest or pin unfindable."""
    rows = tx.all(
        "DELETE FROM passage WHERE owner = %(owner)s AND session = %(session)s"
        " AND kind = %(kind)s AND number = %(number)s RETURNING id, text",
        session=session or 0,
        kind=kind,
        number=number,
    )
    # By their terms, which the one index of the postings begins with.
    tx.run(
        "DELETE FROM posting USING unnest(%(terms)s::text[], %(ids)s::bigint[])"
        " AS gone (term, id) WHERE posting.owner = %(owner)s AND posting.term = gone.term"
        " AND posting.session = %(session)s AND posting.passage = gone.id",
        **_terms_of_rows(rows),
        session=session or 0,
    )


def delete_session(tx: PgTx, session: int) -> None:
    """Make all texts of a session unfindable, but for its pins, which may outlive it."""
    rows = tx.all(
        "UPDATE passage SET session = 0 WHERE owner = %(owner)s AND session = %(session)s"
        " AND kind = 'p' RETURNING id, text",
        session=session,
    )
    tx.run(
        "UPDATE posting SET session = 0 FROM unnest(%(terms)s::text[], %(ids)s::bigint[])"
        " AS kept (term, id) WHERE posting.owner = %(owner)s AND posting.term = kept.term"
        " AND posting.session = %(session)s AND posting.passage = kept.id",
        **_terms_of_rows(rows),
        session=session,
    )
    for table in ("posting", "passage"):
        tx.run(
            f"DELETE FROM {table} WHERE owner = %(owner)s AND session = %(session)s",
            session=session,
        )


def _terms_of_rows(rows: Sequence[PgRow]) -> dict[str, object]:
    """The terms of some passages, each beside its passage."""
    texts = [row["text"].decode() for row in rows]
    postings = postings_of(texts)
    return {
        "terms": [posting.term for posting in postings],
        "ids": [rows[posting.text]["id"] for posting in postings],
    }


def rebuild(tx: PgTx) -> None:
    """Build the postings anew from the texts."""
    tx.run("DELETE FROM posting WHERE owner = %(owner)s")
    after = 0
    while rows := tx.all(
        "SELECT id, session, text FROM passage WHERE owner = %(owner)s AND id > %(after)s"
        " ORDER BY id LIMIT %(limit)s",
        after=after,
        limit=_REBUILT_AT_ONCE,
    ):
        after = rows[-1]["id"]
        texts = [row["text"].decode() for row in rows]
        postings = postings_of(texts)
        tx.run(
            "INSERT INTO posting (owner, term, session, passage, places)"
            " SELECT %(owner)s, * FROM unnest(%(terms)b::text[], %(sessions)b::bigint[],"
            " %(passages)b::bigint[], %(places)b::bytea[])",
            terms=[posting.term for posting in postings],
            sessions=[rows[posting.text]["session"] for posting in postings],
            passages=[rows[posting.text]["id"] for posting in postings],
            places=[posting.places for posting in postings],
        )
