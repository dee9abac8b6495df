"""The rows that every store has, whatever its tables look like, and the hashes of them; one owner's
are read and written as they are.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from functools import singledispatch
from hashlib import sha256
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

from mcp_compaction.errors import StoreError
from mcp_compaction.store import passages
from mcp_compaction.store.connect import SCHEMA_VERSION, pragma
from mcp_compaction.store.passages import StoredPassage
from mcp_compaction.store.sql import Tx

Cell = str | int | float | None
Cells = tuple[Cell, ...]

SESSION: Final = (
    *("name", "project", "agent", "host", "host_session", "created", "updated", "last_seq"),
    *("last_chain", "view_version", "next_digest", "next_compaction", "counted", "reported"),
    "traits",
)

# What belongs to one session. A number that a store gives for itself is not among the columns.
TABLES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "message": (
            *("seq", "follows", "role", "shape", "host_id", "content", "chain", "at", "recorded"),
            *("tokens", "counter", "via", "speaker", "raw"),
        ),
        "tool_call": ("call", "tool"),
        "call_message": ("call", "seq"),
        "section": ("at", "section_tokens", "memory_tokens", "json"),
        "view": ("version", "json"),
        "digest": ("number", "tokens", "json"),
        "receipt": ("number", "base_version", "json"),
        "event": ("name", "at", "detail"),
        "model_call": (
            *("at", "model", "seconds", "input_tokens", "output_tokens", "cached_tokens", "cost"),
            "failed",
        ),
        "transcript": ("address", "position", "tail"),
        "thinking": ("block", "beginning"),
        "tombstone": ("ref", "sha256", "at"),
    }
)
ORDER: Final[Mapping[str, str]] = MappingProxyType(
    {
        "message": "seq",
        "tool_call": "call",
        "call_message": "call, seq",
        "view": "version",
        "digest": "number",
        "receipt": "number",
        "transcript": "address",
        "thinking": "block",
    }
)
"""The order in which a table's rows are read and hashed; of the others: their ids."""

PIN: Final = (
    *("number", "project", "kind", "scope", "author", "at", "expires", "released"),
    *("superseded_by", "source", "channel", "used", "checksum", "text", "checks"),
)
PASSAGE: Final = ("project", "kind", "number", "ordinal", "role", "at", "tools", "text")

_BYTE_FOR_BYTE: Final = ("raw", "text")


class SessionName(NamedTuple):
    """What a session is known by in every store."""

    project: str
    name: str


class ListedSession(NamedTuple):
    """A session in a list of all."""

    id: int
    name: SessionName
    parent: SessionName | None
    host: tuple[str, str, str] | None  # the host, its own id and the agent
    messages: int


class Inventory(NamedTuple):
    """All sessions of a store, and whose each transcript is that was recorded."""

    sessions: tuple[ListedSession, ...]
    transcripts: Mapping[str, SessionName | None]


class SessionRows(NamedTuple):
    """All rows of one session but for its pins."""

    session: Cells
    parent: SessionName | None
    tables: Mapping[str, Sequence[Cells]]
    passages: Sequence[StoredPassage]  # without their session

    def hashes(self) -> dict[str, str]:
        """A hash for each part, the same in every store."""
        whole = {"session": (SESSION, [self.session])}
        whole |= {table: (TABLES[table], rows) for table, rows in self.tables.items()}
        named = {part: _hash_rows(columns, rows) for part, (columns, rows) in whole.items()}
        texts = [cells_of(passage) for passage in self.passages]
        return {**named, "parent": _hash(self.parent), "passage": _hash_rows(PASSAGE, texts)}


class KeptPin(NamedTuple):
    """A pin with all that hangs on it."""

    row: Cells
    session: SessionName | None  # None: that was forgotten
    announced: tuple[str, ...]  # to these projects
    passages: tuple[StoredPassage, ...]  # without their session

    @property
    def number(self) -> int:
        """Its number in every store."""
        return int(self.row[0] or 0)

    def hash(self) -> str:
        """A hash of it, the same in every store."""
        texts = [cells_of(passage) for passage in self.passages]
        rows = _hash_rows(PIN, [self.row]), _hash_rows(PASSAGE, texts)
        return _hash((*rows, self.session and tuple(self.session), self.announced))


class LooseRows(NamedTuple):
    """The rows that are not of one session alone."""

    pins: tuple[KeptPin, ...]
    last_pin: int  # the newest number that was ever given
    transcripts: tuple[Cells, ...]  # of sessions that were forgotten


class RowStore(Protocol):
    """A store whose rows can be read and written as they are."""

    async def inventory(self) -> Inventory:
        """All sessions there are, in the order in which they were made."""
        ...

    async def read_rows(self, session: int) -> SessionRows:
        """All rows of a session, from one moment."""
        ...

    async def write_rows(self, rows: SessionRows, /) -> int:
        """Keep a session whole or not at all, where there is none of that name; its id."""
        ...

    async def read_loose_rows(self) -> LooseRows:
        """The rows that are not of one session alone."""
        ...

    async def write_loose_rows(self, rows: LooseRows, /) -> None:
        """Keep these, all or none; there is no pin of these numbers."""
        ...

    async def close(self) -> None:
        """Let go of the store."""
        ...


def cells_of(passage: StoredPassage) -> Cells:
    """The columns of a passage."""
    return (*passage[1:7], pack_tools(passage.tools), passage.text)


def passage_of(cells: Sequence[Cell]) -> StoredPassage:
    """The passage of such columns."""
    *begin, tools, text = cells
    return StoredPassage._make((None, *begin, unpack_tools(str(tools)), text))


def pack_tools(tools: Iterable[str]) -> str:
    """Tools as a passage has them, each between line feeds."""
    return "".join(f"\n{tool}\n" for tool in tools)


def unpack_tools(text: str) -> tuple[str, ...]:
    """The tools of such a text."""
    return tuple(tool for tool in text[1:-1].split("\n\n") if tool)


def _hash_rows(columns: Sequence[str], rows: Iterable[Cells]) -> str:
    digest = sha256()
    for row in rows:
        cells = [
            # PostgreSQL holds NUL in no text, and has its sign there.
            cell.replace("\0", "\u2400")
            if isinstance(cell, str) and column not in _BYTE_FOR_BYTE
            else cell
            for column, cell in zip(columns, row, strict=True)
        ]
        digest.update(repr(cells).encode())
    return digest.hexdigest()


def _hash(value: object) -> str:
    return sha256(repr(value).encode()).hexdigest()


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
