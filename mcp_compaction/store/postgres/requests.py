"""Finds the user messages that may hold a text, and those that hold all that another one says."""

from __future__ import annotations

from mcp_compaction.errors import UnknownRef
from mcp_compaction.ports import Original, Scope, Twin, Twins
from mcp_compaction.store.postgres.database import Tx
from mcp_compaction.store.postgres.log import originals
from mcp_compaction.store.postgres.passages import KEYS_FROM
from mcp_compaction.store.postgres.search import Phrase, Place, find_phrase, terms_of
from mcp_compaction.store.postgres.sessions import IN_SCOPE, one_session, scope_values
from mcp_compaction.store.requests import pieces_of
from mcp_compaction.store.stub import FORGOTTEN
from mcp_compaction.store.twins import LEAST_CHARS, MOST_LISTED, rarest_run, words_of

_SCANNED = 1_000  # newest passages with a piece of the text that are looked at


def requests_with(tx: Tx, scope: Scope, text: str, limit: int) -> tuple[Original, ...]:
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


def _find(tx: Tx, session: int, terms: tuple[str, ...]) -> list[Place]:
    if not terms:
        return []
    return find_phrase(tx, Phrase(terms), [session], upto=KEYS_FROM)


def _read_users(tx: Tx, places: list[Place], limit: int, *, is_long: bool) -> list[int]:
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


def twins(tx: Tx, scope: Scope, seq: int, within: Scope) -> Twins:
    """The messages that say the same or hold it whole, whatever their white space."""
    session = one_session(tx, scope)
    row = tx.one(
        "SELECT shape, raw FROM message WHERE owner = %(owner)s AND session = %(session)s"
        " AND seq = %(seq)s",
        session=session,
        seq=seq,
    )
    if row is None:
        raise UnknownRef(f"There is no m{seq} in this session; look at its messages.")
    wanted = words_of(row["shape"], row["raw"].decode())
    if len(wanted.replace(FORGOTTEN, "").strip()) < LEAST_CHARS:
        return Twins()
    rows = tx.all(
        "SELECT message.seq, message.shape, message.raw, session.name, session.project"
        " FROM message JOIN session ON session.owner = %(owner)s AND session.id = message.session"
        f" WHERE message.owner = %(owner)s AND {IN_SCOPE}"
        " AND NOT (message.session = %(session)s AND message.seq = %(seq)s)"
        " AND position(%(run)s::bytea IN message.raw) > 0"
        " ORDER BY (session.id = %(session)s) DESC, session.project, session.id, message.seq",
        **scope_values(within),
        session=session,
        seq=seq,
        run=rarest_run(wanted).encode(),
    )
    found = [
        Twin(project=row["project"], session=row["name"], ref=f"m{row['seq']}")
        for row in rows
        if wanted in words_of(row["shape"], row["raw"].decode())
    ]
    return Twins(found=tuple(found[:MOST_LISTED]), more=max(0, len(found) - MOST_LISTED))
