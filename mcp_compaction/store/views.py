"""Pins, views, digests and receipts: what was shown, what stood for what, what each change did."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from mcp_compaction.errors import PinRefused, StoreDamaged, UnknownRef
from mcp_compaction.model import (
    Author,
    Compaction,
    Digest,
    Event,
    NewPin,
    Pin,
    PinChange,
    Receipt,
    View,
)
from mcp_compaction.ports import EARLIER_VIEWS, Scope
from mcp_compaction.store import passages
from mcp_compaction.store.identity import RESTORE
from mcp_compaction.store.listing import PIN_COLUMNS, author_in, pin_rows
from mcp_compaction.store.passages import StoredPassage
from mcp_compaction.store.scope import check_session, pins_in
from mcp_compaction.store.sessions import add_event, session_row
from mcp_compaction.store.sql import StoredRow, Tx, encodable, from_json, lost_error, stamp, to_json

if TYPE_CHECKING:
    from mcp_compaction.checks.judge import Rule

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


def pins(tx: Tx, scope: Scope, now: datetime, released: bool = False) -> tuple[Pin, ...]:
    """The pins in force in the scope, oldest first; with the released and expired ones if asked."""
    check_session(tx, scope)
    return tuple(map(pin_of, pin_rows(tx, scope, stamp(now), released)))


def add_pin(tx: Tx, session: int, pin: NewPin, now: datetime) -> Pin:
    """Keep a pin, releasing the one it supersedes."""
    row = session_row(tx, session)
    if encodable(pin.text) != pin.text:
        raise PinRefused("The text holds half of a character; send it again without the damage.")
    cursor = tx.execute(
        "INSERT INTO pin (session, project, kind, scope, author, at, expires, source, channel,"
        " used, text, checksum) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, '')",
        (
            *(session, row["project"], pin.kind, pin.scope, stored_author(pin), stamp(now)),
            *(
                None if pin.expires is None else stamp(pin.expires),
                source_with_context(pin),
                pin.channel,
            ),
            *(None if pin.used is None else stamp(pin.used), pin.text),
        ),
    )
    number = cursor.lastrowid or 0
    kept = Pin(**pin.model_dump(exclude={"supersedes"}), number=number, session=row["name"], at=now)
    tx.execute("UPDATE pin SET checksum = ? WHERE number = ?", (kept.checksum, number))
    passages.insert(
        tx,
        [StoredPassage(session, row["project"], "p", number, 0, "pin", stamp(now), (), pin.text)],
    )
    if pin.supersedes is not None:
        release_pin(tx, Scope(project=row["project"], session=session), pin.supersedes, now)
        tx.execute("UPDATE pin SET superseded_by = ? WHERE number = ?", (number, pin.supersedes))
    return kept


def change_pins(
    tx: Tx,
    session: int,
    decide: Callable[[tuple[Pin, ...]], PinChange],
    now: datetime,
) -> Pin | None:
    """Change the pins in force in a session as `decide` says when it is shown them."""
    scope = Scope(project=session_row(tx, session)["project"], session=session)
    change = decide(pins(tx, scope, now))
    for number in change.releases:
        release_pin(tx, scope, number, now)
    return None if change.new is None else add_pin(tx, session, change.new, now)


def release_pin(tx: Tx, scope: Scope, number: int, now: datetime) -> None:
    """Take a pin out of force; its text stays findable."""
    _change_in_force(tx, scope, number, "released", stamp(now))


def set_checks(tx: Tx, scope: Scope, number: int, checks: str) -> None:
    """Set the checks beside a pin in force; blank: it has none."""
    _change_in_force(tx, scope, number, "checks", checks)


def _change_in_force(tx: Tx, scope: Scope, number: int, column: str, value: str) -> None:
    """Set a column of a pin that is in force within a scope."""
    check_session(tx, scope)
    condition = pins_in(scope)
    cursor = tx.execute(
        f"UPDATE pin SET {column} = ? WHERE number = ? AND released IS NULL"
        f" AND number IN (SELECT number FROM pin WHERE {condition.sql})",
        (value, number, *condition.parameters),
    )
    if cursor.rowcount == 0:
        raise UnknownRef(f"There is no pin p{number} in force here; look at the pinned block.")


def rules_with_checks(tx: Tx) -> list[Rule]:
    """All pins in force that have checks, of every project, as hooks read them."""
    from mcp_compaction.checks.check import read_checks
    from mcp_compaction.checks.judge import Rule

    rows = tx.execute(
        "SELECT pin.*, coalesce(session.host_session, '') AS host_session"
        " FROM pin LEFT JOIN session ON session.id = pin.session"
        " WHERE pin.released IS NULL AND pin.checks != '' ORDER BY pin.number"
    )
    kept = ((row, *read_checks(filter(str.strip, row["checks"].splitlines()))) for row in rows)
    return [
        Rule(
            pin=row["number"],
            text=row["text"],
            checks=checks,
            author=author_in(row),
            scope=row["scope"],
            project=row["project"] or "",
            session=row["host_session"],
            expires=row["expires"] or "",
            unread=unread,
        )
        for row, checks, unread in kept
    ]


def renew_facts(tx: Tx, numbers: Sequence[int], now: datetime, expires: datetime) -> None:
    """Note that project facts were used; a pin that is none of them stays as it is."""
    tx.executemany(
        "UPDATE pin SET used = ?, expires = ? WHERE number = ? AND used IS NOT NULL",
        [(stamp(now), stamp(expires), number) for number in numbers],
    )


def unannounced_pins(tx: Tx, project: str, session: int | None, now: datetime) -> tuple[Pin, ...]:
    """The pins for the project or for everywhere that no other session was told of yet."""
    condition = pins_in(Scope(project=project))
    rows = tx.execute(
        f"SELECT {PIN_COLUMNS} FROM pin LEFT JOIN session ON session.id = pin.session"
        f" WHERE {condition.sql} AND pin.scope != 'session'"
        " AND pin.kind != 'note' AND pin.session IS NOT ?"
        " AND pin.released IS NULL AND (pin.expires IS NULL OR pin.expires > ?)"
        " AND NOT EXISTS (SELECT 1 FROM announced"
        " WHERE announced.pin = pin.number AND announced.project = ?)"
        " ORDER BY pin.number",
        (*condition.parameters, session, stamp(now), project),
    )
    return tuple(pin_of(row) for row in rows)


def mark_announced(tx: Tx, project: str, numbers: Sequence[int]) -> None:
    """Note that the project's sessions were told of these pins."""
    tx.executemany(
        "INSERT INTO announced (pin, project) VALUES (?, ?) ON CONFLICT DO NOTHING",
        [(number, project) for number in numbers],
    )


def source_with_context(pin: NewPin) -> str | None:
    """The ref of the message that a pin's words come from; on further lines the words that govern
    them there, if the pin has them without these."""
    return f"{pin.source}\n{pin.context}" if pin.source and pin.context else pin.source


def stored_author(pin: NewPin) -> Author:
    """The author as `author_in` reads it again: a program's pin always came by a message."""
    return "agent" if pin.author == "program" else pin.author


def pin_of(row: StoredRow) -> Pin:
    """The pin of such a row; one whose text was changed is damage."""
    source, _, context = (row["source"] or "").partition("\n")
    pin = Pin(
        number=row["number"],
        text=row["text"],
        kind=row["kind"],
        scope=row["scope"],
        author=author_in(row),
        session=row["session"],
        at=row["at"],
        source=source or None,
        context=context,
        expires=row["expires"],
        channel=row["channel"],
        used=row["used"],
        checks=row["checks"],
    )
    if pin.checksum != row["checksum"]:
        raise StoreDamaged(
            f"The text of {pin.ref} is not what was pinned; release it and pin it anew, or put a "
            f"backup in the store's place: {RESTORE}"
        )
    return pin
