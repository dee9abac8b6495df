"""How far this store was sent to a team's server; a small file beside the store.

What waits is no copy: it is the end of each session's log, and the pins that are in force. So a
queue takes no room of its own, is in order, and holds nothing that was forgotten before it was
sent.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Generator, Iterable
from contextlib import closing, contextmanager, suppress
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from platform import node
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from mcp_compaction.errors import InputError, StoreError
from mcp_compaction.home import OUTBOX, make_folder, mask, open_new
from mcp_compaction.store.connect import connect, store_path
from mcp_compaction.store.lockfile import LockFile
from mcp_compaction.store.scope import Condition, of_project
from mcp_compaction.store.sql import stamp

MOST_WAITING: Final = 50_000_000
"""Bytes of messages over which what waits is told as a problem; nothing of it is dropped."""

_PATIENCE = 5.0  # seconds for another process of this user
_TABLES = """
    CREATE TABLE IF NOT EXISTS target (
        one INTEGER PRIMARY KEY CHECK (one = 1),
        store TEXT NOT NULL,                   -- a name for this store
        server TEXT,                           -- NULL: nothing is sent
        project TEXT,                          -- NULL: of all projects
        done TEXT NOT NULL DEFAULT '',         -- when something last arrived
        trouble TEXT NOT NULL DEFAULT '',      -- why nothing arrives now
        refused TEXT NOT NULL DEFAULT ''       -- what alone is not taken, one a line
    );
    CREATE TABLE IF NOT EXISTS sent (
        server TEXT NOT NULL,
        source TEXT NOT NULL,                  -- a session, which no other store has
        seq INTEGER NOT NULL,
        PRIMARY KEY (server, source)
    ) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS sent_pin (      -- pins of this store that are in force there
        server TEXT NOT NULL,
        number INTEGER NOT NULL,
        there INTEGER NOT NULL,
        source TEXT NOT NULL,
        project TEXT NOT NULL,
        checks TEXT NOT NULL,
        PRIMARY KEY (server, number)
    ) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS pin (           -- pins of the server, and what they are here
        server TEXT NOT NULL,
        project TEXT NOT NULL,
        number INTEGER NOT NULL,
        here INTEGER,                          -- NULL: it was here before
        PRIMARY KEY (server, project, number)
    ) WITHOUT ROWID;
"""


class Target(NamedTuple):
    """Where messages of this store go, and how that went."""

    store: str  # the name by which the server knows this store
    server: str
    project: str | None  # None: all projects
    done: str
    trouble: str
    refused: tuple[str, ...] = ()  # sessions and pins that the server does not take, and why


class SentPinNote(NamedTuple):
    """A pin of this store that a server has."""

    number: int
    there: int  # its number on the server
    source: str  # of the session it was made in
    project: str
    checks: str = ""


class Waiting(NamedTuple):
    """How many messages, bytes and pins were not sent yet."""

    messages: int
    bytes: int
    pins: int = 0

    @property
    def is_too_much(self) -> bool:
        """Whether a person should look why nothing arrives."""
        return self.bytes > MOST_WAITING


class Outbox:
    """The notes on what was sent; each call is one short transaction of its own."""

    def __init__(self, home: Path) -> None:
        self._store = store_path(home)
        self.path = OUTBOX.path(home)

    @property
    def lock(self) -> LockFile:
        """The lock of the one process that sends."""
        return LockFile(self.path)

    def read(self) -> Target | None:
        """Where to send; None: nowhere."""
        if not self.path.exists():
            return None
        with self._opened() as file:
            row = file.execute(
                "SELECT store, server, project, done, trouble, refused FROM target"
                " WHERE server IS NOT NULL"
            ).fetchone()
        if row is None:
            return None
        *told, refused = row
        return Target(*told, refused=tuple(refused.splitlines()))

    def point(self, server: str | None, project: str | None = None) -> None:
        """Send there from now on; None: nowhere. Another server gets all from the start."""
        if server is None and not self.path.exists():
            return
        with self._opened() as file:
            file.execute(
                "INSERT INTO target (one, store, server, project) VALUES (1, ?1, ?2, ?3)"
                " ON CONFLICT (one) DO UPDATE"
                " SET server = ?2, project = ?3, trouble = '', refused = ''",
                (self._name(), server, project),
            )

    def _name(self) -> str:
        """A name for this store: the same where this file was lost, else all would go twice."""
        return sha256(f"{node()}:{self.path}".encode("utf-8", "replace")).hexdigest()[:32]

    def sent(self, server: str) -> dict[str, int]:
        """For each session, by its source, the newest message that the server has."""
        with self._opened() as file:
            rows = file.execute("SELECT source, seq FROM sent WHERE server = ?", (server,))
            return dict(rows.fetchall())

    def note_sent(self, server: str, source: str, seq: int, now: str) -> None:
        """Note that the server has a session up to that message."""
        with self._opened() as file:
            file.execute(
                "INSERT INTO sent VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE SET seq = max(seq, ?3)",
                (server, source, seq),
            )
            file.execute("UPDATE target SET done = ?", (now,))

    @contextmanager
    def starting_over(self) -> Generator[None]:
        """For the block, in which the store becomes another one, nobody sends; afterwards all goes
        again, and what is known there stays once."""
        if not self.path.exists():
            yield
            return
        lock = self.lock
        try:
            with lock.hold(_PATIENCE):
                with self._opened() as file:
                    for table in ("sent", "sent_pin", "pin"):
                        file.execute(f"DELETE FROM {table}")
                yield
        finally:
            lock.close()

    def note_trouble(self, why: str) -> None:
        """Note why nothing arrives; empty: all is well."""
        with self._opened() as file:
            file.execute("UPDATE target SET trouble = ?1 WHERE trouble != ?1", (mask(why)[:500],))

    def note_refused(self, lines: Iterable[str]) -> None:
        """Note what alone is not taken, and why."""
        text = "\n".join(" ".join(mask(line).split())[:500] for line in lines)
        with self._opened() as file:
            file.execute("UPDATE target SET refused = ?1 WHERE refused != ?1", (text,))

    def forget_words(self) -> None:
        """Remove what was noted in words, which may quote a message; the next pass tells anew."""
        if self.path.exists():
            with self._opened() as file:
                file.execute("UPDATE target SET trouble = '', refused = ''")

    def sent_pins(self, server: str) -> tuple[SentPinNote, ...]:
        """The pins of this store that the server has in force."""
        with self._opened() as file:
            rows = file.execute(
                "SELECT number, there, source, project, checks FROM sent_pin WHERE server = ?"
                " ORDER BY number",
                (server,),
            )
            return tuple(SentPinNote(*row) for row in rows)

    def note_sent_pin(self, server: str, pin: SentPinNote) -> None:
        """Note that the server has a pin."""
        with self._opened() as file:
            file.execute(
                "INSERT OR REPLACE INTO sent_pin VALUES (?, ?, ?, ?, ?, ?)", (server, *pin)
            )

    def drop_sent_pin(self, server: str, number: int) -> None:
        """Note that a pin of this store is in force no more on the server."""
        with self._opened() as file:
            file.execute("DELETE FROM sent_pin WHERE server = ? AND number = ?", (server, number))

    def pins(self, server: str, project: str) -> dict[int, int | None]:
        """The pins of the server that came here, and their numbers here."""
        with self._opened() as file:
            rows = file.execute(
                "SELECT number, here FROM pin WHERE server = ? AND project = ?", (server, project)
            )
            return dict(rows.fetchall())

    def note_pin(self, server: str, project: str, number: int, here: int | None) -> None:
        """Note that a pin of the server came here."""
        with self._opened() as file:
            file.execute(
                "INSERT OR REPLACE INTO pin VALUES (?, ?, ?, ?)", (server, project, number, here)
            )

    def drop_pin(self, server: str, project: str, number: int) -> None:
        """Note that a pin of the server is in force no more."""
        with self._opened() as file:
            file.execute(
                "DELETE FROM pin WHERE server = ? AND project = ? AND number = ?",
                (server, project, number),
            )

    def count_waiting(self, target: Target, now: datetime) -> Waiting:
        """What is recorded and was not sent."""
        if not self._store.exists():
            return Waiting(0, 0)
        sent = self.sent(target.server)
        known = [note.number for note in self.sent_pins(target.server)]
        everywhere = Condition("TRUE", ())
        here = of_project("project", target.project) if target.project else everywhere
        messages = size = 0
        with closing(connect(self._store, deadline=_PATIENCE, readonly=True)) as store:
            for session, created, newest in store.execute(
                f"SELECT id, created, last_seq FROM session WHERE {here.sql}", here.parameters
            ).fetchall():
                after = sent.get(source_of(target, session, created), 0)
                if newest > after:
                    count, length = store.execute(
                        "SELECT count(*), coalesce(sum(length(raw)), 0) FROM message"
                        " WHERE session = ? AND seq > ?",
                        (session, after),
                    ).fetchone()
                    messages, size = messages + count, size + length
            (pins,) = store.execute(
                "SELECT count(*) FROM pin WHERE released IS NULL AND session IS NOT NULL"
                " AND (expires IS NULL OR expires > ?) AND channel != 'team' AND used IS NULL"
                f" AND number NOT IN (SELECT value FROM json_each(?)) AND {here.sql}",
                (stamp(now), json.dumps(known), *here.parameters),
            ).fetchone()
        return Waiting(messages, size, pins)

    @contextmanager
    def _opened(self) -> Generator[sqlite3.Connection]:
        try:
            make_folder(self.path.parent)
            with suppress(FileExistsError):
                open_new(self.path).close()
            with closing(sqlite3.connect(self.path, timeout=_PATIENCE)) as file, file:
                file.execute("PRAGMA secure_delete = 1")
                file.executescript(_TABLES)
                yield file
        except (sqlite3.Error, OSError) as error:
            raise StoreError(
                f"{self.path} cannot be used ({error}); remove it, then name the server again: "
                "mcp-compaction install HOST --server URL"
            ) from error


def source_of(target: Target, session: int, created: str) -> str:
    """The name by which the server knows a session of this store, whatever it is called.

    With its time: where a store was removed, numbers begin anew in the one that takes its place.
    """
    return f"{target.store}:{session}:{created}"


def check_server(url: str) -> str:
    """The address of a server as it is kept; refused where a token could be read on the way."""
    parts = urlsplit(url)
    is_near = parts.hostname in ("127.0.0.1", "localhost", "::1")
    if parts.scheme != "https" and not (parts.scheme == "http" and is_near):
        raise InputError(f"{url!r} is no address of a team's server: write it as https://box.lan.")
    if not parts.hostname or parts.username or parts.password or parts.query or parts.fragment:
        raise InputError(f"{url!r} should be an address alone: write it as https://box.lan.")
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/').removesuffix('/mcp')}"
