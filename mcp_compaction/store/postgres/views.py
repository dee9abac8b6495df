"""Views, digests and receipts: what was shown, what stood for what, and what each change did."""

from __future__ import annotations

import json

from mcp_compaction.errors import UnknownRef
from mcp_compaction.model import Compaction, Digest, Event, Receipt, View
from mcp_compaction.ports import EARLIER_VIEWS
from mcp_compaction.store.columns import from_json, stamp, to_json
from mcp_compaction.store.postgres import passages
from mcp_compaction.store.postgres.database import Tx
from mcp_compaction.store.postgres.sessions import add_event, session_row
from mcp_compaction.store.views import version_of_prepared

_MOST_DROPPED = 50


def save(tx: Tx, session: int, compaction: Compaction, event: Event | None) -> bool:
    """Save a compaction whole, unless the view has changed since it was made."""
    row = session_row(tx, session, to_write=True)
    if row["view_version"] != compaction.base_version:
        return False
    receipt = compaction.receipt
    put(tx, session, compaction.view, compaction.base_version + 1)
    for digest in compaction.digests:
        _insert_digest(tx, session, digest)
        passages.insert_digest(tx, session, row["project"], digest, stamp(receipt.at))
    tx.run(
        "INSERT INTO receipt (owner, session, number, base_version, json)"
        " VALUES (%(owner)s, %(session)s, %(number)s, %(base)s, %(json)s)",
        session=session,
        number=receipt.compaction,
        base=compaction.base_version,
        json=to_json(receipt),
    )
    tx.run(
        "UPDATE session SET next_digest = %(digest)s, next_compaction = %(compaction)s,"
        " updated = %(at)s WHERE owner = %(owner)s AND id = %(session)s",
        digest=max([row["next_digest"], *(d.number + 1 for d in compaction.digests)]),
        compaction=receipt.compaction + 1,
        at=stamp(receipt.at),
        session=session,
    )
    if event is not None:
        add_event(tx, session, event)
    return True


def save_prepared(tx: Tx, session: int, prepared: Compaction) -> bool:
    """Keep a view and its digests beside the view that is shown, unless that one has changed."""
    row = session_row(tx, session, to_write=True)
    shown, base = row["view_version"], prepared.base_version
    version = version_of_prepared(shown)
    if base not in (shown, version):
        return False
    tx.run(
        "INSERT INTO view (owner, session, version, json)"
        " VALUES (%(owner)s, %(session)s, %(version)s, %(json)s)"
        " ON CONFLICT (owner, session, version) DO UPDATE SET json = excluded.json",
        session=session,
        version=version,
        json=to_json(prepared.view.model_copy(update={"version": version})),
    )
    for digest in prepared.digests:
        _insert_digest(tx, session, digest)
    tx.run(
        "UPDATE session SET next_digest = %(digest)s WHERE owner = %(owner)s AND id = %(session)s",
        digest=max([row["next_digest"], *(d.number + 1 for d in prepared.digests)]),
        session=session,
    )
    return True


def prepared_view(tx: Tx, session: int) -> View | None:
    """The view that was prepared beside the shown one; None where that has changed since."""
    version = version_of_prepared(session_row(tx, session)["view_version"])
    return _read_view(tx, session, version)


def _read_view(tx: Tx, session: int, version: int) -> View | None:
    row = tx.one(
        "SELECT json FROM view WHERE owner = %(owner)s AND session = %(session)s"
        " AND version = %(version)s",
        session=session,
        version=version,
    )
    return None if row is None else from_json(View, row["json"])


def _insert_digest(tx: Tx, session: int, digest: Digest) -> None:
    tx.run(
        "INSERT INTO digest (owner, session, number, tokens, json)"
        " VALUES (%(owner)s, %(session)s, %(number)s, %(tokens)s, %(json)s)",
        session=session,
        number=digest.number,
        tokens=digest.tokens,
        json=to_json(digest),
    )


def renew(tx: Tx, session: int) -> None:
    """Give the present view a new version, so that nothing made from it can be saved any more."""
    version = session_row(tx, session, to_write=True)["view_version"]
    put(tx, session, view(tx, session, version), version + 1)


def save_view(tx: Tx, session: int, shown: View, base: int, event: Event | None) -> bool:
    """Show a session by another view, unless its view has changed since that was made."""
    if session_row(tx, session, to_write=True)["view_version"] != base:
        return False
    put(tx, session, shown, base + 1)
    if event is not None:
        add_event(tx, session, event)
    return True


def put(tx: Tx, session: int, shown: View, version: int) -> None:
    """Keep a view under its version, as the one that is shown."""
    tx.run(
        "INSERT INTO view (owner, session, version, json)"
        " VALUES (%(owner)s, %(session)s, %(version)s, %(json)s)",
        session=session,
        version=version,
        json=to_json(shown.model_copy(update={"version": version})),
    )
    tx.run(
        "UPDATE session SET view_version = %(version)s WHERE owner = %(owner)s"
        " AND id = %(session)s",
        version=version,
        session=session,
    )
    _drop_left_behind(tx, session, shown, version)


def _drop_left_behind(tx: Tx, session: int, shown: View, version: int) -> None:
    """Drop views that nobody goes back to; the base of each receipt stays, and so does a view that
    alone tells which words a message was edited to, for `forget` asks."""
    rows = tx.all(
        "SELECT version, json FROM view WHERE view.owner = %(owner)s AND session = %(session)s"
        " AND version < %(before)s AND version NOT IN (SELECT base_version FROM receipt"
        " WHERE receipt.owner = %(owner)s AND session = %(session)s)"
        " ORDER BY version DESC LIMIT %(limit)s",
        session=session,
        before=version - EARLIER_VIEWS,
        limit=_MOST_DROPPED,
    )
    told = {(one.seq, one.words) for one in shown.reworded}
    left = [
        row["version"]
        for row in rows
        if {(one["seq"], one["words"]) for one in json.loads(row["json"]).get("reworded", ())}
        <= told
    ]
    if left:
        tx.run(
            "DELETE FROM view WHERE owner = %(owner)s AND session = %(session)s"
            " AND version = ANY(%(left)s)",
            session=session,
            left=left,
        )


def view(tx: Tx, session: int, version: int) -> View:
    """A view of that session as it once was; version 0 shows everything."""
    session_row(tx, session)
    if version == 0:
        return View()
    found = _read_view(tx, session, version)
    if found is None:
        raise UnknownRef(f"There is no view {version} of this session; look at its receipts.")
    return found


def digests(tx: Tx, session: int) -> tuple[Digest, ...]:
    """All digests of that session, oldest first."""
    session_row(tx, session)
    rows = tx.all(
        "SELECT json FROM digest WHERE owner = %(owner)s AND session = %(session)s ORDER BY number",
        session=session,
    )
    return tuple(from_json(Digest, row["json"]) for row in rows)


def receipts(tx: Tx, session: int) -> tuple[tuple[Receipt, int], ...]:
    """All receipts, oldest first, each with the version of the view it was made from."""
    session_row(tx, session)
    rows = tx.all(
        "SELECT json, base_version FROM receipt WHERE owner = %(owner)s"
        " AND session = %(session)s ORDER BY number",
        session=session,
    )
    return tuple((from_json(Receipt, row["json"]), row["base_version"]) for row in rows)
