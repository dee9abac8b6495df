"""One owner's rows in PostgreSQL, read and written as they are."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from mcp_compaction.store.passages import StoredPassage
from mcp_compaction.store.postgres import passages
from mcp_compaction.store.postgres.database import Row, Tx, plain
from mcp_compaction.store.postgres.sessions import session_row, take_turn
from mcp_compaction.store.row_tables import gather_pins
from mcp_compaction.store.rows import (
    ORDER,
    PASSAGE,
    PIN,
    SESSION,
    TABLES,
    Cell,
    Cells,
    Inventory,
    ListedSession,
    LooseRows,
    SessionName,
    SessionRows,
    passage_of,
)

_AT_ONCE = 500  # rows in one statement
_BYTES = ("raw", "text")
_FLOATS = ("seconds", "cost")
_NUMBERS = (
    *("seq", "follows", "tokens", "section_tokens", "memory_tokens", "version", "number"),
    *("base_version", "input_tokens", "output_tokens", "cached_tokens", "position"),
    *("superseded_by", "session"),
)
_ORDER = {**ORDER, "section": "number"}


def inventory(tx: Tx) -> Inventory:
    """All sessions there are, and whose each transcript is."""
    rows = tx.all("SELECT * FROM session WHERE owner = %(owner)s ORDER BY id")
    names = {row["id"]: SessionName(row["project"], row["name"]) for row in rows}
    listed = tuple(
        ListedSession(
            id=row["id"],
            name=names[row["id"]],
            parent=names.get(row["parent"]),
            host=None
            if row["host_session"] is None
            else (row["host"], row["host_session"], row["agent"]),
            messages=row["last_seq"],
        )
        for row in rows
    )
    marks = tx.all("SELECT address, session FROM transcript WHERE owner = %(owner)s")
    return Inventory(listed, {mark["address"]: names.get(mark["session"]) for mark in marks})


def read_rows(tx: Tx, session: int) -> SessionRows:
    """All rows of a session but for its pins."""
    row = session_row(tx, session)
    parent = None if row["parent"] is None else session_row(tx, row["parent"])
    tables: dict[str, list[Cells]] = {}
    for table, columns in TABLES.items():
        found = tx.all(
            f"SELECT {', '.join(columns)} FROM {table} WHERE owner = %(owner)s"
            f" AND session = %(session)s ORDER BY {_ORDER.get(table, 'id')}",
            session=session,
        )
        tables[table] = [_cells(one, columns) for one in found]
    texts = tx.all(
        f"SELECT {', '.join(PASSAGE)} FROM passage WHERE owner = %(owner)s"
        " AND session = %(session)s AND kind <> 'p' ORDER BY id",
        session=session,
    )
    return SessionRows(
        _cells(row, SESSION),
        None if parent is None else SessionName(parent["project"], parent["name"]),
        tables,
        [passage_of(_cells(text, PASSAGE)) for text in texts],
    )


def write_rows(tx: Tx, rows: SessionRows) -> int:
    """Keep a session that is not there yet; its id."""
    take_turn(tx)
    made = tx.one(
        "UPDATE counter SET sessions = sessions + 1 WHERE owner = %(owner)s RETURNING sessions"
    )
    session: int = 0 if made is None else made["sessions"]
    tx.run(
        f"INSERT INTO session (owner, id, parent, {', '.join(SESSION)}) VALUES (%(owner)s, %(id)s,"
        f" %(parent)s, {', '.join(f'%({column})s' for column in SESSION)})",
        id=session,
        parent=_find(tx, rows.parent),
        **{
            column: plain(cell) if isinstance(cell, str) else cell
            for column, cell in zip(SESSION, rows.session, strict=True)
        },
    )
    for table, columns in TABLES.items():
        found = rows.tables[table]
        for start in range(0, len(found), _AT_ONCE):
            part = found[start : start + _AT_ONCE]
            _insert(tx, table, columns, part, session=session, start=start)
    _insert_passages(tx, [one._replace(session=session) for one in rows.passages])
    return session


def read_loose_rows(tx: Tx) -> LooseRows:
    """The rows that are not of one session alone."""
    found = tx.all(
        f"SELECT {', '.join(f'pin.{column}' for column in PIN)},"
        " session.project AS of_project, session.name AS of_name FROM pin LEFT JOIN session"
        " ON session.owner = %(owner)s AND session.id = pin.session WHERE pin.owner = %(owner)s"
        " ORDER BY pin.number"
    )
    told = tx.all(
        "SELECT pin, project FROM announced WHERE owner = %(owner)s ORDER BY pin, project"
    )
    texts = tx.all(
        f"SELECT {', '.join(PASSAGE)} FROM passage WHERE owner = %(owner)s AND kind = 'p'"
        " ORDER BY id"
    )
    last = tx.one("SELECT pins FROM counter WHERE owner = %(owner)s")
    marks = tx.all(
        "SELECT address, position, tail FROM transcript WHERE owner = %(owner)s"
        " AND session IS NULL ORDER BY address"
    )
    pins = gather_pins(
        [_cells(row, (*PIN, "of_project", "of_name")) for row in found],
        [_cells(row, ("pin", "project")) for row in told],
        [_cells(row, PASSAGE) for row in texts],
    )
    columns = TABLES["transcript"]
    return LooseRows(
        pins, 0 if last is None else last["pins"], tuple(_cells(row, columns) for row in marks)
    )


def write_loose_rows(tx: Tx, rows: LooseRows) -> None:
    """Keep pins that are not there yet, and where forgotten transcripts end."""
    take_turn(tx)
    for pin in rows.pins:
        session = _find(tx, pin.session)
        _insert(tx, "pin", PIN, [pin.row], session=session)
        _insert_passages(tx, [one._replace(session=session) for one in pin.passages])
        tx.run(
            "INSERT INTO announced (owner, pin, project) SELECT %(owner)s, %(pin)s, project"
            " FROM unnest(%(projects)s::text[]) AS told (project)",
            pin=pin.number,
            projects=[plain(project) for project in pin.announced],
        )
    tx.run(  # a number that was given once is never given again
        "UPDATE counter SET pins = greatest(pins, %(last)s) WHERE owner = %(owner)s",
        last=rows.last_pin,
    )
    _insert(tx, "transcript", TABLES["transcript"], rows.transcripts, session=None)


def _insert(
    tx: Tx,
    table: str,
    columns: Sequence[str],
    rows: Sequence[Cells],
    *,
    session: int | None,
    start: int = 0,
) -> None:
    """Insert rows of one session; `start`: how many of that table it has already."""
    if not rows:
        return
    arrays = ", ".join(f"%({column})s::{_type_of(column)}[]" for column in columns)
    listed = ", ".join(columns)
    number, counted = (", number", ", place + %(start)s") if table == "section" else ("", "")
    tx.run(
        f"INSERT INTO {table} (owner, session{number}, {listed}) SELECT %(owner)s,"
        f" %(of)s::bigint{counted}, {listed} FROM unnest({arrays}) WITH ORDINALITY"
        f" AS given ({listed}, place) ORDER BY place",
        of=session,
        start=start,
        **{
            column: [_value_of(column, row[place]) for row in rows]
            for place, column in enumerate(columns)
        },
    )


def _insert_passages(tx: Tx, texts: Sequence[StoredPassage]) -> None:
    """Make texts findable, those of one message in one statement, which counts them."""
    part: list[StoredPassage] = []
    for _, whole in groupby(texts, key=lambda text: (text.kind, text.number)):
        part += whole
        if len(part) >= _AT_ONCE:
            passages.insert(tx, part)
            part = []
    passages.insert(tx, part)


def _find(tx: Tx, name: SessionName | None) -> int | None:
    if name is None:
        return None
    row = tx.one(
        "SELECT id FROM session WHERE owner = %(owner)s AND project = %(project)s"
        " AND name = %(name)s",
        project=plain(name.project),
        name=plain(name.name),
    )
    return None if row is None else row["id"]


def _cells(row: Row, columns: Sequence[str]) -> Cells:
    cells = (row[column] for column in columns)
    return tuple(cell.decode() if isinstance(cell, bytes) else cell for cell in cells)


def _type_of(column: str) -> str:
    if column in _NUMBERS:
        return "bigint"
    if column in _FLOATS:
        return "double precision"
    return "bytea" if column in _BYTES else "text"


def _value_of(column: str, cell: Cell) -> object:
    if not isinstance(cell, str):
        return cell
    return cell.encode() if column in _BYTES else plain(cell)
