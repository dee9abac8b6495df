"""Views, digests and receipts: what was shown, what stood for what, and what each change did."""

from __future__ import annotations

import json

from mcp_compaction.errors import UnknownRef
from mcp_compaction.model import Compaction, Digest, Event, Receipt, View
from mcp_compaction.ports import EARLIER_VIEWS
from mcp_compaction.store import passages
from mcp_compaction.store.columns import from_json, lost_error, stamp, to_json
from mcp_compaction.store.sessions import add_event, session_row
from mcp_compaction.store.sql import Tx

_MOST_DROPPED = 50  # views at once: a store of an earlier version may have thousands


def save(
    tx: Tx,
    session: int,
    compaction: Compaction,
    event: Event | None = None,
) -> bool:
    """Save a compaction whole, unless the view has changed since it was made."""
    row = session_row(tx, session)
    if row["view_version"] != compaction.base_version:
        return False
    receipt = compaction.receipt
    put(tx, session, compaction.view, compaction.base_version + 1)
    for digest in compaction.digests:
        _insert_digest(tx, session, digest)
        passages.insert_digest(tx, session, row["project"], digest, stamp(receipt.at))
    tx.execute(
        "INSERT INTO receipt (session, number, base_version, json) VALUES (?, ?, ?, ?)",
        (session, receipt.compaction, compaction.base_version, to_json(receipt)),
    )
    next_digest = max([row["next_digest"], *(d.number + 1 for d in compaction.digests)])
    tx.execute(
        "UPDATE session SET next_digest = ?, next_compaction = ?, updated = ? WHERE id = ?",
        (next_digest, receipt.compaction + 1, stamp(receipt.at), session),
    )
    if event is not None:
        add_event(tx, session, event)
    return True


def save_prepared(tx: Tx, session: int, prepared: Compaction) -> bool:
    """Keep a view and its digests beside the view that is shown, unless that one has changed.

    A search does not find these digests: when their messages leave the window, others are written.
    """
    row = session_row(tx, session)
    shown, base = row["view_version"], prepared.base_version
    version = version_of_prepared(shown)
    if base not in (shown, version):
        return False
    tx.execute(
        "INSERT INTO view (session, version, json) VALUES (?, ?, ?)"
        " ON CONFLICT (session, version) DO UPDATE SET json = excluded.json",
        (session, version, to_json(prepared.view.model_copy(update={"version": version}))),
    )
    for digest in prepared.digests:
        _insert_digest(tx, session, digest)
    next_digest = max([row["next_digest"], *(d.number + 1 for d in prepared.digests)])
    tx.execute("UPDATE session SET next_digest = ? WHERE id = ?", (next_digest, session))
    return True


def prepared_view(tx: Tx, session: int) -> View | None:
    """The view that was prepared beside the shown one; None where that has changed since."""
    version = version_of_prepared(session_row(tx, session)["view_version"])
    row = tx.execute(
        "SELECT json FROM view WHERE session = ? AND version = ?", (session, version)
    ).fetchone()
    return None if row is None else from_json(View, row[0])


def version_of_prepared(shown: int) -> int:
    """The version under which a view is kept beside a shown one: below 0, where none is shown."""
    return -1 - shown


def _insert_digest(tx: Tx, session: int, digest: Digest) -> None:
    tx.execute(
        "INSERT INTO digest (session, number, tokens, json) VALUES (?, ?, ?, ?)",
        (session, digest.number, digest.tokens, to_json(digest)),
    )


def renew(tx: Tx, session: int) -> None:
    """Give the present view a new version, so that nothing made from it can be saved any more."""
    version = session_row(tx, session)["view_version"]
    put(tx, session, view(tx, session, version), version + 1)


def save_view(tx: Tx, session: int, shown: View, base: int, event: Event | None) -> bool:
    """Show a session by another view, unless its view has changed since that was made."""
    if session_row(tx, session)["view_version"] != base:
        return False
    put(tx, session, shown, base + 1)
    if event is not None:
        add_event(tx, session, event)
    return True


def put(tx: Tx, session: int, shown: View, version: int) -> None:
    """Keep a view under its version, as the one that is shown."""
    tx.execute(
        "INSERT INTO view (session, version, json) VALUES (?, ?, ?)",
        (session, version, to_json(shown.model_copy(update={"version": version}))),
    )
    tx.execute("UPDATE session SET view_version = ? WHERE id = ?", (version, session))
    _drop_left_behind(tx, session, shown, version)


def _drop_left_behind(tx: Tx, session: int, shown: View, version: int) -> None:
    """Drop views that nobody goes back to: each is as long as its window, so that to keep all of
    them takes the square of a session. The base of each receipt stays, and so does a view that
    alone tells which words a message was edited to, for `forget` asks."""
    rows = tx.execute(
        "SELECT version, json_extract(json, '$.reworded') FROM view WHERE session = ?1"
        " AND version < ?2 AND version NOT IN (SELECT base_version FROM receipt WHERE session = ?1)"
        " ORDER BY version DESC LIMIT ?3",
        (session, version - EARLIER_VIEWS, _MOST_DROPPED),
    )
    told = {(one.seq, one.words) for one in shown.reworded}
    left = [
        (session, old)
        for old, edits in rows.fetchall()
        if {(one["seq"], one["words"]) for one in json.loads(edits or "[]")} <= told
    ]
    tx.executemany("DELETE FROM view WHERE session = ? AND version = ?", left)


def view(tx: Tx, session: int, version: int) -> View:
    """A view of that session as it once was; version 0 shows everything."""
    present = session_row(tx, session)["view_version"]
    if version == 0:
        return View()
    row = tx.execute(
        "SELECT json FROM view WHERE session = ? AND version = ?", (session, version)
    ).fetchone()
    if row is None and version == present:
        raise lost_error(f"The view of session {session} is lost")
    if row is None:
        raise UnknownRef(f"There is no view {version} of this session; look at its receipts.")
    return from_json(View, row[0])


def digests(tx: Tx, session: int) -> tuple[Digest, ...]:
    """All digests of that session, oldest first."""
    session_row(tx, session)
    rows = tx.execute("SELECT json FROM digest WHERE session = ? ORDER BY number", (session,))
    return tuple(from_json(Digest, text) for (text,) in rows)


def receipts(tx: Tx, session: int) -> tuple[tuple[Receipt, int], ...]:
    """All receipts, oldest first, each with the version of the view it was made from."""
    session_row(tx, session)
    rows = tx.execute(
        "SELECT json, base_version FROM receipt WHERE session = ? ORDER BY number", (session,)
    )
    return tuple((from_json(Receipt, text), base) for text, base in rows)
