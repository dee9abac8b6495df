"""The store as the rest of the program sees it; each method reads or writes by one function."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TypeVar

import anyio

from mcp_compaction.errors import InputError, StoreBusy
from mcp_compaction.model import (
    Compaction,
    Digest,
    Event,
    Hit,
    Matches,
    ModelCall,
    Pin,
    Receipt,
    Session,
    SessionInfo,
    Spent,
    Traits,
    View,
    Worth,
)
from mcp_compaction.ports import (
    Batch,
    Forgotten,
    Health,
    NewPin,
    Original,
    Recorded,
    Scope,
    SearchQuery,
    SessionKey,
    Twins,
    WindowCount,
)
from mcp_compaction.store import calls as model_calls
from mcp_compaction.store import (
    forget,
    log,
    passages,
    pins,
    requests,
    search,
    sessions,
    twins,
    views,
)
from mcp_compaction.store.connect import make_folder, open_file, store_errors
from mcp_compaction.store.database import (
    Database,
    Stop,
    Writer,
    finished,
    read_transaction,
    take,
)
from mcp_compaction.store.health import health
from mcp_compaction.store.load import count_window, load, not_shown, window_tokens
from mcp_compaction.store.lockfile import LockFile
from mcp_compaction.store.schema import open_migrated

T = TypeVar("T")

_CLOSE_DEADLINE = 1.0  # a host gives its server two seconds to go
_BUSY_MILLISECONDS = 250  # the lock file has done the waiting; this is for foreign programs


async def open_store(path: Path, deadline: float = 30.0) -> SqliteStore:
    """The store in that file, made or migrated if need be."""
    with store_errors(path):
        make_folder(path.parent)
    lock_file = LockFile(path)
    opened: list[Database] = []
    try:
        await take(lock_file, time.monotonic() + deadline, deadline)
        for connector in (_writing, _reading):
            database = Database(path, partial(connector, path, deadline, lock_file))
            opened.append(database)
            await database.open()
    except BaseException:
        with anyio.CancelScope(shield=True):
            for database in opened:
                await database.close()
        lock_file.close()
        raise
    lock_file.release()
    store = SqliteStore(path, opened[0], opened[1], Writer(opened[0], lock_file, deadline))
    try:
        await store.finish_purge()
    except BaseException:
        await store.close()
        raise
    return store


def _writing(path: Path, deadline: float, lock: LockFile) -> sqlite3.Connection:
    connection = open_migrated(path, deadline=deadline, lock=lock)
    connection.execute(f"PRAGMA busy_timeout = {_BUSY_MILLISECONDS}")
    return connection


def _reading(path: Path, deadline: float, lock: LockFile) -> sqlite3.Connection:
    connection = open_migrated(path, deadline=deadline, lock=lock)
    connection.execute("PRAGMA query_only = ON")
    return connection


class SqliteStore:
    """Sessions in one SQLite file that several processes may use at once."""

    def __init__(self, path: Path, writing: Database, reading: Database, writer: Writer) -> None:
        self.path = path
        self._writing = writing
        self._reading = reading
        self._writer = writer
        self._closing = anyio.Lock()
        self._is_open = True

    async def open_session(
        self, key: SessionKey, traits: Traits, now: datetime
    ) -> tuple[SessionInfo, bool]:
        """The session of that key, and whether it was made just now."""
        return await self._write(lambda c: sessions.open_session(c, key, traits, now))

    async def find_session(self, scope: Scope, name: str) -> SessionInfo | None:
        """The session of that name in the scope."""
        return await self._read(lambda c: sessions.find_session(c, scope, name))

    async def find_host_session(
        self, project: str, host_session: str, host: str | None = None
    ) -> SessionInfo | None:
        """The session that a host knows by this id of its own."""
        return await self._read(
            lambda c: sessions.find_host_session(c, project, host_session, host)
        )

    async def sessions(self, scope: Scope, limit: int) -> tuple[SessionInfo, ...]:
        """The sessions of the scope, the newest first."""
        return await self._read(lambda c: sessions.list_sessions(c, scope, limit))

    async def set_traits(self, session: int, traits: Traits) -> None:
        """Set what is kept per session."""
        await self._write(lambda c: sessions.set_traits(c, session, traits))

    async def append(self, session: int, batch: Batch, now: datetime) -> Recorded:
        """Append what is not yet known; known messages keep their numbers."""

        def work(connection: sqlite3.Connection) -> Recorded:
            recorded = log.append(connection, session, batch, now)
            if batch.reported is not None:
                counted = window_tokens(connection, session)
                sessions.calibrate(connection, session, counted, batch.reported)
            return recorded

        return await self._write(work)

    async def calibrate(self, session: int, counted: int, reported: int) -> None:
        """Note our count of the window beside the provider's count of the same window."""
        await self._write(lambda c: sessions.calibrate(c, session, counted, reported))

    async def load(self, session: int, now: datetime, view: View | None = None) -> Session:
        """The session at this moment, seen through its newest view or through the one given."""
        return await self._read(lambda c: load(c, session, now, view))

    async def count_window(
        self, session: int, now: datetime, known: WindowCount | None = None
    ) -> WindowCount:
        """The count of a window; where its view is the known one, only what came since is read."""
        return await self._read(lambda c: count_window(c, session, now, known))

    async def save(self, session: int, compaction: Compaction, event: Event | None = None) -> bool:
        """Save view, digests, receipt, search rows and event; False if the view has changed."""
        return await self._write(lambda c: views.save(c, session, compaction, event))

    async def view(self, session: int, version: int) -> View:
        """A view of that session as it once was."""
        return await self._read(lambda c: views.view(c, session, version))

    async def not_shown(self, session: int, seqs: Sequence[int]) -> tuple[int, ...]:
        """Which of these messages the newest view no longer shows; none without a compaction."""
        return await self._read(lambda c: not_shown(c, session, seqs))

    async def digests(self, session: int) -> tuple[Digest, ...]:
        """All digests of that session, oldest first."""
        return await self._read(lambda c: views.digests(c, session))

    async def receipts(self, session: int) -> tuple[tuple[Receipt, int], ...]:
        """All receipts, oldest first, each with the version of the view it was made from."""
        return await self._read(lambda c: views.receipts(c, session))

    async def originals(
        self, scope: Scope, seqs: Sequence[int] = (), after: int = 0, limit: int = 1000
    ) -> tuple[Original, ...]:
        """Messages of one session by number, or those after a number."""
        return await self._read(lambda c: log.originals(c, scope, seqs, after, limit))

    async def messages_of_calls(
        self, scope: Scope, calls: Sequence[str]
    ) -> tuple[tuple[int, ...], ...]:
        """For each id of a tool call the messages of one session with the call and its result."""
        return await self._read(lambda c: log.messages_of_calls(c, scope, calls))

    async def requests_with(self, scope: Scope, text: str, limit: int) -> tuple[Original, ...]:
        """User messages of one session that may hold a text: the host's first, then the oldest."""
        return await self._read(lambda c: requests.requests_with(c, scope, text, limit))

    async def find(self, scope: Scope, query: SearchQuery) -> Matches:
        """Where each term of a query stands."""
        return await self._read(lambda c: search.find(c, scope, query))

    async def read(
        self, scope: Scope, query: SearchQuery, wanted: Sequence[Worth]
    ) -> tuple[Hit, ...]:
        """The texts of what is worth reading, in that order."""
        return await self._read(lambda c: search.read(c, scope, query, wanted))

    async def listed(self, scope: Scope, query: SearchQuery, limit: int) -> tuple[Hit, ...]:
        """The passages that a query means by its qualifiers alone, in order."""
        return await self._read(lambda c: search.listed(c, scope, query, limit))

    async def search_many(
        self, scope: Scope, queries: Sequence[SearchQuery], limit: int
    ) -> tuple[tuple[int, ...], ...]:
        """For each query the numbers of the messages that match best; one round trip."""
        return await self._read(lambda c: search.search_many(c, scope, queries, limit))

    async def pins(self, scope: Scope, now: datetime, released: bool = False) -> tuple[Pin, ...]:
        """The pins in force in the scope: its own, its project's and the global ones."""
        return await self._read(lambda c: pins.pins(c, scope, now, released))

    async def add_pin(self, session: int, pin: NewPin, now: datetime) -> Pin:
        """Keep a pin, releasing the one it supersedes."""
        return await self._write(lambda c: pins.add_pin(c, session, pin, now))

    async def release_pin(self, scope: Scope, number: int, now: datetime) -> None:
        """Take a pin out of force; its text stays findable."""
        await self._write(lambda c: pins.release_pin(c, scope, number, now))

    async def unannounced(
        self, project: str, session: int | None, now: datetime
    ) -> tuple[Pin, ...]:
        """The pins for the project or for everywhere that no other session was told of yet."""
        return await self._read(lambda c: pins.unannounced(c, project, session, now))

    async def mark_announced(self, project: str, numbers: Sequence[int]) -> None:
        """Note that the project's sessions were told of these pins."""
        await self._write(lambda c: pins.mark_announced(c, project, numbers))

    async def add_event(self, session: int, event: Event) -> None:
        """Note that something happened."""
        await self._write(lambda c: sessions.add_event(c, session, event))

    async def events(self, session: int) -> tuple[Event, ...]:
        """What happened to that session, oldest first."""
        return await self._read(lambda c: sessions.events(c, session))

    async def add_calls(self, session: int, calls: Sequence[ModelCall], now: datetime) -> None:
        """Note what was asked of models on behalf of a session."""
        await self._write(lambda c: model_calls.add_calls(c, session, calls, now))

    async def spent(self, session: int | None, since: datetime | None = None) -> Spent:
        """What the model calls of a session took since a moment; None: of all sessions, ever."""
        return await self._read(lambda c: model_calls.spent(c, session, since))

    async def twins(self, scope: Scope, seq: int, within: Scope) -> Twins:
        """The messages within a scope that hold all that one message of a session says."""
        return await self._read(lambda c: twins.twins(c, scope, seq, within))

    async def forget(self, scope: Scope, seq: int | None, now: datetime) -> Forgotten:
        """Remove a message, a session or a project so that no byte of it is left."""
        forgotten = await self._write(lambda c: forget.forget(c, scope, seq, now))
        if not await self._purge(tries=8):
            raise StoreBusy(
                f"All of it is forgotten, but another program keeps old bytes in {self.path}-wal; "
                "close the programs that use the store, and they go with it."
            )
        return forgotten

    async def finish_purge(self) -> None:
        """Empty the log file if a forget was interrupted before it could."""
        if await self._read(forget.is_purge_due):
            with suppress(StoreBusy):
                await self._purge(tries=1)

    async def backup(self, target: Path) -> None:
        """Write a sound copy of the store to a new file."""
        await self._reading.run(lambda c: _back_up(c, target))

    async def repair(self) -> None:
        """Build the search index anew from its texts."""
        await self._write(passages.rebuild)

    async def health(self) -> Health:
        """Look the store over without changing it."""
        # The check of the search index is an INSERT, so it needs the writing connection.
        return await self._write(lambda c: health(c, self.path))

    async def close(self) -> None:
        """Let go of the file; a second call does nothing."""
        with anyio.CancelScope(shield=True):
            async with self._closing:
                if self._is_open:
                    await self._close()
                    self._is_open = False

    async def _close(self) -> None:
        try:
            await self._reading.close()
        finally:
            # The last to close a store checkpoints it, which is done under the lock.
            with suppress(StoreBusy):
                async with self._writer.alone(_CLOSE_DEADLINE):
                    await self._writing.close()
            # Late would be worse than without the lock: the host is about to kill us.
            await self._writing.close()
            self._writer.let_go()

    async def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        return await self._reading.run(lambda c: read_transaction(c, work))

    async def _write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        return await self._writer.transaction(work)

    async def _purge(self, tries: int) -> bool:
        """Rewrite the file and empty its log; False if a reader kept the log all the time."""
        async with self._writer.alone() as database:
            stop = Stop()
            upto = await finished(database.begin(lambda c: forget.rewrite(c, stop)), stop.wish)
        for _ in range(tries):
            async with self._writer.alone() as database:
                if await finished(database.begin(lambda c: forget.empty_log(c, upto))):
                    return True
            await anyio.sleep(0.05)
        return False


def _back_up(connection: sqlite3.Connection, target: Path) -> None:
    with store_errors(target):
        try:
            open_file(target)
        except FileExistsError:
            raise InputError(f"{target} is already there; choose a new file.") from None
    try:
        copy = sqlite3.connect(target, isolation_level=None)
        try:
            connection.backup(copy)
        finally:
            copy.close()
    except BaseException:
        target.unlink()
        raise
