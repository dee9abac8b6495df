"""Pins: kept word for word, checked when read, released but never silently lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from mcp_compaction.errors import PinRefused, StoreDamaged, UnknownRef
from mcp_compaction.model import Author, NewPin, Pin, PinChange
from mcp_compaction.ports import Scope
from mcp_compaction.store import passages
from mcp_compaction.store.columns import encodable, stamp
from mcp_compaction.store.identity import RESTORE
from mcp_compaction.store.listing import PIN_COLUMNS, author_in, pin_rows
from mcp_compaction.store.passages import StoredPassage
from mcp_compaction.store.scope import check_session, pins_in
from mcp_compaction.store.sessions import session_row
from mcp_compaction.store.sql import StoredRow, Tx

if TYPE_CHECKING:
    from mcp_compaction.checks.judge import Rule


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
            *(None if pin.expires is None else stamp(pin.expires), pack_source(pin), pin.channel),
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
    check_session(tx, scope)
    condition = pins_in(scope)
    cursor = tx.execute(
        "UPDATE pin SET released = ? WHERE number = ? AND released IS NULL"
        f" AND number IN (SELECT number FROM pin WHERE {condition.sql})",
        (stamp(now), number, *condition.parameters),
    )
    if cursor.rowcount == 0:
        raise UnknownRef(f"There is no pin p{number} in force here; look at the pinned block.")


def set_checks(tx: Tx, scope: Scope, number: int, checks: str) -> None:
    """Set the checks beside a pin in force; blank: it has none."""
    check_session(tx, scope)
    condition = pins_in(scope)
    cursor = tx.execute(
        "UPDATE pin SET checks = ? WHERE number = ? AND released IS NULL"
        f" AND number IN (SELECT number FROM pin WHERE {condition.sql})",
        (checks, number, *condition.parameters),
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


def pack_source(pin: NewPin) -> str | None:
    """The ref of the source, and on further lines what governs words that were torn out there."""
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
