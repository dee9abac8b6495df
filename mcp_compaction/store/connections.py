"""The connections of an open store: one writes, one reads beside it; both know their files.

Where the store's folder cannot be written only the one that reads is there. Where the files were
replaced under them, both are given up and opened anew.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import time
from contextlib import suppress
from pathlib import Path

from mcp_compaction.errors import StoreError, StoreMoved, StoreReadOnly
from mcp_compaction.home import make_folder
from mcp_compaction.store.connect import connect, store_errors
from mcp_compaction.store.database import Database, shield, take
from mcp_compaction.store.identity import (
    Change,
    Identity,
    StoreMark,
    change_since,
    damaged_error,
    describe_files,
    identity_of,
    is_same_log,
    log_path,
    mark_of_store,
    read_mark,
    size_of,
    words_for,
)
from mcp_compaction.store.lockfile import LockFile, Users
from mcp_compaction.store.schema import SCHEMA_VERSION, open_migrated

_BUSY_MILLISECONDS = 250  # the lock file has done the waiting; this is for foreign programs
_UNREAD = "something could not be read"
# What a reader need not mind: it still sees all there was, and nobody has come since.
_READABLE: frozenset[Change] = frozenset({"removed", "log removed"})


class Connections:
    """Two connections to one file, which is checked to be still the one that was opened."""

    def __init__(self, path: Path, lock_file: LockFile, deadline: float) -> None:
        self.path = path
        self.lock_file = lock_file
        self._deadline = deadline
        self._writing: Database | None = None
        self._reading: Database | None = None
        self._identity: Identity | None = None
        self._why_read_only: StoreReadOnly | None = None
        self._is_closed = False
        self._reopening = asyncio.Lock()
        self._users = Users()
        self._misses_rows = True  # where they were acknowledged
        self._is_in_doubt = False
        self.doubt: str | None = None  # why the store is, or was, looked over before a write
        self.damage: tuple[str, ...] = ()

    @property
    def writing(self) -> Database:
        """The connection that writes."""
        if self._why_read_only is not None:
            raise StoreReadOnly(str(self._why_read_only))
        return self._require(self._writing)

    @property
    def reading(self) -> Database:
        """The connection that reads."""
        return self._require(self._reading)

    @property
    def needs_lock(self) -> bool:
        """Whether closing may write, since a connection that writes is open."""
        return self._writing is not None

    @property
    def why_read_only(self) -> str | None:
        """Why nothing can be written, where that is so."""
        return None if self._why_read_only is None else str(self._why_read_only)

    async def open(self) -> None:
        """Open the file, made or migrated if need be; read-only where it cannot be written."""
        try:
            with store_errors(self.path):
                make_folder(self.path.parent)
            await take(self.lock_file, time.monotonic() + self._deadline, self._deadline)
            try:
                await self.open_locked()
            finally:
                self.lock_file.release()
        except StoreReadOnly as error:
            if not self.path.exists():
                raise
            await self.open_read_only(error)

    async def open_locked(self) -> None:
        """Open the file while the caller holds the lock file."""
        self._is_in_doubt = True
        found = read_mark(self.lock_file.read()) or StoreMark()
        was_left = describe_files(self.path) if size_of(self.path) else None
        try:
            self._writing = Database(self.path, self._connect_to_write)
            await self._writing.open()
            first = identity_of(self.path)
            self._reading = Database(self.path, self._connect_to_read)
            await self._reading.open()
            self._identity = identity_of(self.path)
            if self._identity != first:
                raise StoreMoved(words_for("replaced", self.path))
            with suppress(OSError):
                self._users.join(log_path(self.path))
            self._decide_on_trust(found, was_left)
        except BaseException:
            with shield():
                await self.close()
            raise

    def _decide_on_trust(self, found: StoreMark, was_left: str | None) -> None:
        """Note whether the store has to be looked over before anything is written to it."""
        now = mark_of_store(self.path, identity_of(self.path), "open")
        self.damage = ()
        if was_left in (None, found.state):
            self.doubt = None
        elif found.database not in (0, now.database):
            self.doubt = "another file lies in its place than the one last used"
        elif found.state.startswith("left"):
            self.doubt = "its files were changed since its last user left"
        elif found.state == "open" and is_same_log(found, now) and not self._users.is_only_one():
            self.doubt = None
        else:
            self.doubt = "its last user did not close it"
        self._is_in_doubt = self.doubt is not None
        is_known = found.database == now.database or (now.salt and is_same_log(found, now))
        newest = found.newest if is_known else ""
        self._mark("doubted" if self._is_in_doubt else "open", newest)

    def _mark(self, state: str, newest: str = "") -> None:
        if self._identity is not None:
            with suppress(OSError):  # a full disk keeps nobody from reading
                self.lock_file.mark(
                    mark_of_store(self.path, self._identity, state, newest).to_bytes()
                )

    def suspect(self) -> None:
        """Have the store looked over before the next write, since it could not be read; once."""
        if self.doubt != _UNREAD:
            self.doubt, self._is_in_doubt = _UNREAD, True

    def forgive_loss(self) -> None:
        """Go on without the rows that were acknowledged and are missing."""
        self._misses_rows, self.damage = False, ()

    def expect_fewer_rows(self) -> None:
        """Miss no row from now on: some are about to be forgotten."""
        self._mark("open")

    def acknowledge(self, connection: sqlite3.Connection) -> None:
        """Note which rows are the newest, so that their loss would be noticed."""
        self._mark("open", newest_rows(connection))

    async def open_read_only(self, why: StoreReadOnly) -> None:
        """Open the file to be read alone."""
        cause = why.__cause__
        reason = cause.strerror if isinstance(cause, OSError) else str(cause or why)
        self._why_read_only = StoreReadOnly(
            f"{self.path} can be read but not written ({reason}); nothing was kept. Make its "
            "folder writable, or set MCP_COMPACTION_HOME to a folder of yours."
        )
        self._reading = Database(self.path, self._connect_to_read)
        await self._reading.open()
        self._identity = identity_of(self.path)

    @property
    def may_be_written_again(self) -> bool:
        """Whether what could only be read when it was opened is writable by its modes."""
        is_writable = os.access(self.path, os.W_OK) and os.access(self.path.parent, os.W_OK)
        return self._why_read_only is not None and is_writable

    async def reopen(self) -> None:
        """Open anew what could only be read; by now it may be writable."""
        async with self._reopening:
            if self._why_read_only is None:  # somebody else has done it
                return
            await self.close()
            self._why_read_only = None
            await self.open()

    def check(self, connection: sqlite3.Connection) -> None:
        """Refuse to write where the files are no longer those that were opened, or are damaged."""
        change = self._find_change()
        if change is not None:
            raise StoreMoved(words_for(change, self.path))
        if self._is_in_doubt:
            self._look_over(connection)

    def _look_over(self, connection: sqlite3.Connection) -> None:
        """Take the doubt away, or refuse to write for good."""
        from mcp_compaction.store.health import find_damage, find_missing_rows

        if not self.damage:
            self.damage = tuple(find_damage(connection, self.path))
            marked = read_mark(self.lock_file.read())
            if not self.damage and marked is not None and self._misses_rows:
                self.damage = tuple(find_missing_rows(marked.newest, newest_rows(connection)))
        if self.damage:
            raise damaged_error(self.path, self.damage)
        self._is_in_doubt = False

    def check_to_read(self) -> None:
        """Refuse to read where other files lie in the place of those that were opened."""
        change = self._find_change()
        if change is not None and change not in _READABLE:
            raise StoreMoved(words_for(change, self.path))

    async def recover(self) -> None:
        """Open the files that lie there now; the caller holds the lock file."""
        change = self._find_change()
        if self._writing is not None and change in (None, "removed", "mixed"):
            return
        if change == "log removed":
            # Nobody has opened the file since, so what only the lost log held can be saved.
            await self.writing.run(_save_log)
        await self.close(keeps_log=change != "log removed")
        await self.open_locked()

    async def close(self, *, keeps_log: bool | None = None) -> None:
        """Close both; the last to close empties the log into the file, unless it is kept out."""
        if keeps_log is None:
            keeps_log = not self._may_empty_log()
        writing, reading = self._writing, self._reading
        is_known = writing is not None and not self._is_in_doubt and self._find_change() is None
        self._writing = self._reading = None
        # A connection that only reads never empties the log: of files that were replaced, an old
        # log would spoil the new database.
        for database in (writing, reading) if keeps_log else (reading, writing):
            if database is not None:
                await database.close()
        if is_known and self.lock_file.held and self._users.is_only_one():
            self._identity = identity_of(self.path)
            self._mark(describe_files(self.path))
        self._users.leave()

    async def close_reading(self) -> None:
        """Wait for the reads under way, so that nobody has to wait for them under the lock."""
        self._is_closed = True
        if self._reading is not None and self._may_empty_log():
            await self._reading.close()
            self._reading = None

    def _may_empty_log(self) -> bool:
        return not self._is_in_doubt and self._find_change() in (None, "log removed")

    def _require(self, database: Database | None) -> Database:
        if database is not None:
            return database
        if self._is_closed:
            raise StoreError("The store is closed; open it again.")
        raise StoreMoved(f"{self.path} is being opened anew; try again.")

    def _find_change(self) -> Change | None:
        if self._identity is None:
            return None
        return change_since(self._identity, identity_of(self.path))

    def _connect_to_write(self) -> sqlite3.Connection:
        connection = open_migrated(self.path, deadline=self._deadline, lock=self.lock_file)
        connection.execute(f"PRAGMA busy_timeout = {_BUSY_MILLISECONDS}")
        return connection

    def _connect_to_read(self) -> sqlite3.Connection:
        return connect(self.path, deadline=self._deadline, newest=SCHEMA_VERSION, readonly=True)


def newest_rows(connection: sqlite3.Connection) -> str:
    """The numbers of the newest message, pin and event, none of which goes but by a forget."""
    columns = (("message", "id"), ("pin", "number"), ("event", "id"))
    numbers = ", ".join(f"(SELECT coalesce(max({key}), 0) FROM {name})" for name, key in columns)
    return "/".join(map(str, connection.execute(f"SELECT {numbers}").fetchone()))


def _save_log(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA wal_checkpoint(FULL)")
