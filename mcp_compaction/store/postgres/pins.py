"""Pins: kept word for word, checked when read, released but never silently lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from mcp_compaction.errors import PinRefused, UnknownRef
from mcp_compaction.model import Pin
from mcp_compaction.ports import NewPin, PinChange, Scope
from mcp_compaction.store.columns import encodable, stamp
from mcp_compaction.store.passages import StoredPassage
from mcp_compaction.store.pins import pack_source, pin_of, stored_author
from mcp_compaction.store.postgres import passages
from mcp_compaction.store.postgres.database import Tx, plain
from mcp_compaction.store.postgres.sessions import (
    check_session,
    scope_values,
    session_row,
    take_turn,
)

_PINS = (
    "SELECT pin.number, pin.text, pin.kind, pin.scope, pin.author, pin.at, pin.source, pin.expires,"
    " pin.channel, pin.used, pin.checks, pin.checksum, coalesce(session.name, '') AS session"
    " FROM pin LEFT JOIN session ON session.owner = %(owner)s AND session.id = pin.session"
    " WHERE pin.owner = %(owner)s"
)
# The scope's own, its project's and the global ones.
_IN_SCOPE = (
    "(((%(project)s::text IS NULL OR pin.project = %(project)s)"
    " AND (%(only)s::bigint IS NULL OR pin.session = %(only)s))"
    " OR (pin.scope = 'project' AND pin.project = coalesce(%(project)s::text,"
    " (SELECT project FROM session WHERE owner = %(owner)s AND id = %(only)s)))"
    " OR pin.scope = 'global')"
)
_IN_FORCE = "pin.released IS NULL AND (pin.expires IS NULL OR pin.expires > %(now)s)"


def pins(tx: Tx, scope: Scope, now: datetime, released: bool = False) -> tuple[Pin, ...]:
    """The pins in force in the scope, oldest first; with the released and expired ones if asked."""
    check_session(tx, scope)
    rows = tx.all(
        f"{_PINS} AND {_IN_SCOPE} AND (%(released)s OR ({_IN_FORCE})) ORDER BY pin.number",
        **scope_values(scope),
        released=released,
        now=stamp(now),
    )
    return tuple(pin_of({**row, "text": row["text"].decode()}) for row in rows)


def add_pin(tx: Tx, session: int, pin: NewPin, now: datetime) -> Pin:
    """Keep a pin, releasing the one it supersedes."""
    row = session_row(tx, session)
    if encodable(pin.text) != pin.text:
        raise PinRefused("The text holds half of a character; send it again without the damage.")
    take_turn(tx)
    made = tx.one("UPDATE counter SET pins = pins + 1 WHERE owner = %(owner)s RETURNING pins")
    number = 0 if made is None else made["pins"]
    kept = Pin(**pin.model_dump(exclude={"supersedes"}), number=number, session=row["name"], at=now)
    source = pack_source(pin)
    tx.run(
        "INSERT INTO pin (owner, number, session, project, kind, scope, author, at, expires,"
        " source, channel, used, checksum, text) VALUES (%(owner)s, %(number)s, %(session)s,"
        " %(project)s, %(kind)s, %(scope)s, %(author)s, %(at)s, %(expires)s, %(source)s,"
        " %(channel)s, %(used)s, %(checksum)s, %(text)s)",
        number=number,
        session=session,
        project=row["project"],
        kind=pin.kind,
        scope=pin.scope,
        author=stored_author(pin),
        at=stamp(now),
        expires=None if pin.expires is None else stamp(pin.expires),
        source=None if source is None else plain(source),
        channel=plain(pin.channel),
        used=None if pin.used is None else stamp(pin.used),
        checksum=kept.checksum,
        text=pin.text.encode(),
    )
    passages.insert(
        tx,
        [StoredPassage(session, row["project"], "p", number, 0, "pin", stamp(now), (), pin.text)],
    )
    if pin.supersedes is not None:
        scope = Scope(project=row["project"], session=session)
        release_pin(tx, scope, pin.supersedes, now)
        tx.run(
            "UPDATE pin SET superseded_by = %(by)s WHERE owner = %(owner)s AND number = %(number)s",
            by=number,
            number=pin.supersedes,
        )
    return kept


def change_pins(
    tx: Tx, session: int, decide: Callable[[tuple[Pin, ...]], PinChange], now: datetime
) -> Pin | None:
    """Change the pins in force in a session as `decide` says when it is shown them."""
    take_turn(tx)
    scope = Scope(project=session_row(tx, session)["project"], session=session)
    change = decide(pins(tx, scope, now))
    for number in change.releases:
        release_pin(tx, scope, number, now)
    return None if change.new is None else add_pin(tx, session, change.new, now)


def release_pin(tx: Tx, scope: Scope, number: int, now: datetime) -> None:
    """Take a pin out of force; its text stays findable."""
    check_session(tx, scope)
    released = tx.run(
        "UPDATE pin SET released = %(now)s WHERE owner = %(owner)s AND number = %(number)s"
        f" AND released IS NULL AND {_IN_SCOPE}",
        **scope_values(scope),
        now=stamp(now),
        number=number,
    )
    if not released:
        raise UnknownRef(f"There is no pin p{number} in force here; look at the pinned block.")


def set_checks(tx: Tx, scope: Scope, number: int, checks: str) -> None:
    """Set the checks beside a pin in force; blank: it has none."""
    check_session(tx, scope)
    done = tx.run(
        "UPDATE pin SET checks = %(checks)s WHERE owner = %(owner)s AND number = %(number)s"
        f" AND released IS NULL AND {_IN_SCOPE}",
        **scope_values(scope),
        checks=plain(checks),
        number=number,
    )
    if not done:
        raise UnknownRef(f"There is no pin p{number} in force here; look at the pinned block.")


def renew_facts(tx: Tx, numbers: Sequence[int], now: datetime, expires: datetime) -> None:
    """Note that project facts were used; a pin that is none of them stays as it is."""
    tx.run(
        "UPDATE pin SET used = %(used)s, expires = %(expires)s WHERE owner = %(owner)s"
        " AND number = ANY(%(numbers)s) AND used IS NOT NULL",
        used=stamp(now),
        expires=stamp(expires),
        numbers=list(numbers),
    )


def unannounced_pins(tx: Tx, project: str, session: int | None, now: datetime) -> tuple[Pin, ...]:
    """The pins for the project or for everywhere that no other session was told of yet."""
    rows = tx.all(
        f"{_PINS} AND {_IN_SCOPE} AND pin.scope <> 'session' AND pin.kind <> 'note'"
        f" AND pin.session IS DISTINCT FROM %(session)s::bigint AND {_IN_FORCE}"
        " AND NOT EXISTS (SELECT 1 FROM announced WHERE announced.owner = %(owner)s"
        " AND announced.pin = pin.number AND announced.project = %(project)s)"
        " ORDER BY pin.number",
        **scope_values(Scope(project=project)),
        session=session,
        now=stamp(now),
    )
    return tuple(pin_of({**row, "text": row["text"].decode()}) for row in rows)


def mark_announced(tx: Tx, project: str, numbers: Sequence[int]) -> None:
    """Note that the project's sessions were told of these pins."""
    tx.run(
        "INSERT INTO announced (owner, pin, project) SELECT %(owner)s, pin, %(project)s"
        " FROM unnest(%(numbers)s::bigint[]) AS told (pin) ON CONFLICT DO NOTHING",
        numbers=list(numbers),
        project=plain(project),
    )
