"""Finds the user messages that may hold a text, by the postings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mcp_compaction.store.postgres.database import PgTx
from mcp_compaction.store.postgres.passages import KEYS_FROM
from mcp_compaction.store.postgres.search import Phrase, Place, find_phrase, terms_of

_SCANNED = 1_000  # newest passages with a piece of the text that are looked at


def find_requests(tx: PgTx, session: int, pieces: Sequence[str], limit: int) -> Iterator[int]:
    """The user messages with all pieces of a text together, then those with one of them."""
    whole, *parts = terms_of([" ".join(pieces), *pieces])
    yield from _read_users(tx, _find(tx, session, whole), limit, is_long=False)
    places = [place for part in parts for place in _find(tx, session, part)]
    newest = sorted(set(places), key=lambda place: -place.passage)[:_SCANNED]
    yield from _read_users(tx, newest, limit, is_long=True)


def _find(tx: PgTx, session: int, terms: tuple[str, ...]) -> list[Place]:
    if not terms:
        return []
    return find_phrase(tx, Phrase(terms), [session], upto=KEYS_FROM)


def _read_users(tx: PgTx, places: list[Place], limit: int, *, is_long: bool) -> list[int]:
    """The user messages of some passages; `is_long`: only those of several passages, since only
    they can hold a text across a cut."""
    rows = tx.all(
        "SELECT DISTINCT message.via, message.seq FROM passage JOIN message"
        " ON message.owner = %(owner)s AND message.session = passage.session"
        " AND message.seq = passage.number WHERE passage.owner = %(owner)s"
        " AND passage.id = ANY(%(ids)s) AND passage.kind = 'm'"
        " AND passage.role IN ('user', 'system') AND message.role = 'user'"
        " AND (NOT %(is_long)s OR passage.size > 1)"
        " ORDER BY message.via, message.seq LIMIT %(limit)s",
        ids=[place.passage for place in places],
        is_long=is_long,
        limit=limit,
    )
    return [row["seq"] for row in rows]
