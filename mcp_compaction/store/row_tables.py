"""One owner's rows, read and written as they are."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from functools import singledispatch

from mcp_compaction.errors import StoreError
from mcp_compaction.store import passages
from mcp_compaction.store.connect import SCHEMA_VERSION, pragma
from mcp_compaction.store.rows import (
    ORDER,
    PASSAGE,
    PIN,
    SESSION,
    TABLES,
    Cell,
    Cells,
    Inventory,
    KeptPin,
    ListedSession,
    LooseRows,
    SessionName,
    SessionRows,
    passage_of,
)
from mcp_compaction.store.sql import Tx


def inventory_of_file(connection: sqlite3.Connection) -> Inventory:
    """All sessions of a file whose tables are up to date."""
    version = pragma(connection, "user_version")
    if version != SCHEMA_VERSION:
        raise StoreError(
            f"The store is of schema {version}, {SCHEMA_VERSION} is needed, and a copy changes "
            "nothing where it reads; bring it up to date with any command, as: "
            "mcp-compaction sessions --home FOLDER"
        )
    return inventory(connection)


def inventory(tx: Tx) -> Inventory:
    """All sessions there are, and whose each transcript is."""
    rows = tx.execute(
        "SELECT session.*, parent.project AS parent_project, parent.name AS parent_name"
        " FROM session LEFT JOIN session AS parent ON parent.id = session.parent"
        " ORDER BY session.id"
    ).fetchall()
    listed = tuple(
        ListedSession(
            id=row["id"],
            name=SessionName(row["project"], row["name"]),
            parent=_name_of(row["parent_project"], row["parent_name"]),
            host=None
            if row["host_session"] is None
            else (row["host"], row["host_session"], row["agent"]),
            messages=row["last_seq"],
        )
        for row in rows
    )
    by_id = {one.id: one.name for one in listed}
    marks = tx.execute("SELECT address, session FROM transcript").fetchall()
    return Inventory(listed, {address: by_id.get(session) for address, session in marks})


def read_rows(tx: Tx, session: int) -> SessionRows:
    """All rows of a session but for its pins."""
    row = tx.execute(
        f"SELECT {', '.join(f'session.{one}' for one in SESSION)}, parent.project, parent.name"
        " FROM session LEFT JOIN session AS parent ON parent.id = session.parent"
        " WHERE session.id = ?",
        (session,),
    ).fetchone()
    tables = {
        table: _read(
            tx,
            f"SELECT {', '.join(columns)} FROM {table} WHERE session = ?"
            f" ORDER BY {ORDER.get(table, 'id')}",
            session,
        )
        for table, columns in TABLES.items()
    }
    texts = _read(
        tx,
        f"SELECT {', '.join(PASSAGE)} FROM passage WHERE session = ? AND kind != 'p' ORDER BY id",
        session,
    )
    return SessionRows(
        tuple(row)[:-2], _name_of(*tuple(row)[-2:]), tables, [passage_of(text) for text in texts]
    )


def write_rows(tx: Tx, rows: SessionRows) -> int:
    """Keep a session that is not there yet; its id."""
    parent = _find(tx, rows.parent)
    cursor = tx.execute(
        f"INSERT INTO session ({', '.join(SESSION)}, parent) VALUES ({_marks(len(SESSION) + 1)})",
        (*rows.session, parent),
    )
    session = cursor.lastrowid or 0
    for table, columns in TABLES.items():
        tx.executemany(
            f"INSERT INTO {table} (session, {', '.join(columns)})"
            f" VALUES ({_marks(len(columns) + 1)})",
            ((session, *row) for row in rows.tables[table]),
        )
    passages.insert(tx, [passage._replace(session=session) for passage in rows.passages])
    return session


def read_loose_rows(tx: Tx) -> LooseRows:
    """The rows that are not of one session alone."""
    found = _read(
        tx,
        f"SELECT {', '.join(f'pin.{one}' for one in PIN)}, session.project, session.name"
        " FROM pin LEFT JOIN session ON session.id = pin.session ORDER BY pin.number",
    )
    told = _read(tx, "SELECT pin, project FROM announced ORDER BY pin, project")
    texts = _read(tx, f"SELECT {', '.join(PASSAGE)} FROM passage WHERE kind = 'p' ORDER BY id")
    loose = "SELECT address, position, tail FROM transcript WHERE session IS NULL ORDER BY address"
    return LooseRows(gather_pins(found, told, texts), last_pin(tx), tuple(_read(tx, loose)))


def gather_pins(
    found: Iterable[Cells], told: Sequence[Cells], texts: Sequence[Cells]
) -> tuple[KeptPin, ...]:
    """Pins with what hangs on them; each row ends with its session's project and name."""
    projects: dict[Cell, list[str]] = {}
    for pin, project in told:
        projects.setdefault(pin, []).append(str(project))
    by_number: dict[Cell, list[Cells]] = {}
    for text in texts:
        by_number.setdefault(text[PASSAGE.index("number")], []).append(text)
    return tuple(
        KeptPin(
            row[:-2],
            _name_of(*row[-2:]),
            tuple(projects.get(row[0], ())),
            tuple(passage_of(text) for text in by_number.get(row[0], ())),
        )
        for row in found
    )


def write_loose_rows(tx: Tx, rows: LooseRows) -> None:
    """Keep pins that are not there yet, and where forgotten transcripts end."""
    expect_pins(tx, rows.last_pin)
    for pin in rows.pins:
        session = _find(tx, pin.session)
        tx.execute(
            f"INSERT INTO pin (session, {', '.join(PIN)}) VALUES ({_marks(len(PIN) + 1)})",
            (session, *pin.row),
        )
        passages.insert(tx, [passage._replace(session=session) for passage in pin.passages])
        tx.executemany(
            "INSERT INTO announced (pin, project) VALUES (?, ?)",
            ((pin.number, project) for project in pin.announced),
        )
    tx.executemany(
        "INSERT INTO transcript (address, position, tail) VALUES (?, ?, ?)", rows.transcripts
    )


@singledispatch
def last_pin(tx: Tx) -> int:
    """The newest number that was ever given to a pin."""
    (last,) = tx.execute(
        "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'pin'"
    ).fetchone()
    return last


@singledispatch
def expect_pins(tx: Tx, upto: int) -> None:
    """Have pins kept under their numbers: one that was given once is never given again."""
    tx.execute("PRAGMA defer_foreign_keys = ON")  # a pin may be superseded by a later one
    if upto > last_pin(tx):
        tx.execute("DELETE FROM sqlite_sequence WHERE name = 'pin'")
        tx.execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('pin', ?)", (upto,))


def _read(tx: Tx, sql: str, *values: int) -> list[Cells]:
    return [tuple(row) for row in tx.execute(sql, values)]


def _find(tx: Tx, name: SessionName | None) -> int | None:
    if name is None:
        return None
    row = tx.execute("SELECT id FROM session WHERE project = ? AND name = ?", name).fetchone()
    return None if row is None else row["id"]


def _name_of(project: Cell, name: Cell) -> SessionName | None:
    return None if name is None else SessionName(str(project), str(name))


def _marks(count: int) -> str:
    return ", ".join("?" * count)
