"""Finds the user messages that may hold a text, by the postings."""

from __future__ import annotations

from collections.abc import Sequence

from mcp_compaction.ports import Original, PinFacts, Scope
from mcp_compaction.store import sessions
from mcp_compaction.store.log import originals
from mcp_compaction.store.postgres.database import PgTx
from mcp_compaction.store.postgres.passages import KEYS_FROM
from mcp_compaction.store.postgres.search import Phrase, Place, find_phrase, terms_of
from mcp_compaction.store.requests import pieces_of
from mcp_compaction.store.scope import one_session

_SCANNED = 1_000  # newest passages with a piece of the text that are looked at


def requests_with(tx: PgTx, scope: Scope, text: str, limit: int) -> tuple[Original, ...]:
    """User messages of one session that may hold a text, those with all of it in one place first.

    Of each kind at most `limit`: the host's before an agent's, the oldest first.
    """
    session = one_session(tx, scope)
    pieces = pieces_of(text)
    if not pieces:
        return ()
    whole, *parts = terms_of([" ".join(pieces), *pieces])
    seqs: dict[int, None] = {}
    places = _find(tx, session, whole)
    seqs |= dict.fromkeys(_read_users(tx, places, limit, is_long=False))
    places = [place for part in parts for place in _find(tx, session, part)]
    newest = sorted(set(places), key=lambda place: -place.passage)[:_SCANNED]
    seqs |= dict.fromkeys(_read_users(tx, newest, limit, is_long=True))
    if not seqs:
        return ()
    found = originals(tx, scope, list(seqs), 0, len(seqs))
    by_seq = {original.message.seq: original for original in found}
    return tuple(by_seq[seq] for seq in seqs)


def pin_facts(
    tx: PgTx, scope: Scope, words: Sequence[str], limit: int, events: Sequence[str]
) -> PinFacts:
    """What decides about a pin of one session."""
    session = one_session(tx, scope)
    found = [one for text in words for one in requests_with(tx, scope, text, limit)]
    return PinFacts(
        info=sessions.session_info(tx, session),
        said=tuple({one.message.seq: one.message for one in found}.values()),
        events=tuple(e for name in events for e in sessions.events(tx, session, name)),
    )


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
