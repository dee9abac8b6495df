"""Run plain sqlite3 functions on the database's own thread, writes one at a time and all or none;
and overwrite the bytes of what was deleted.

Cancellation is the hard part: the thread cannot be cancelled, so whoever waits for it waits to the
end, asks it to roll back, and only then lets the locks go and the cancellation pass.
"""

from __future__ import annotations

import asyncio
import sqlite3
import sys
import threading
import time
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import (
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
    nullcontext,
    suppress,
)
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeVar, cast

import aiosqlite

from mcp_compaction.errors import StoreError
from mcp_compaction.store.connect import pragma, store_errors
from mcp_compaction.store.lockfile import LockFile, busy_error, pauses

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]

_STEPS_BETWEEN_LOOKS = 2_000  # of SQLite's virtual machine, well under a millisecond

# The values of tombstone.purged.
_DUE = 0
_LOG_ONLY = -1  # the file was written anew, its log could not be emptied since
_DONE = 1


class Database(aiosqlite.Connection):
    """A connection on its own thread that runs whole functions instead of single statements."""

    _tx: SimpleQueue[tuple[asyncio.Future[Any] | None, Callable[[], Any]]]

    def __init__(self, path: Path, connector: Callable[[], sqlite3.Connection]) -> None:
        super().__init__(connector, iter_chunk_size=64)
        self.path = path
        # A connection nobody closed must not keep the process alive.
        self._thread.daemon = True

    async def open(self) -> None:
        """Start the thread and connect."""
        self._thread.start()
        opening: asyncio.Future[sqlite3.Connection] = self._submit(self._connector)
        try:
            await wait_to_end(opening)
        finally:
            if opening.exception() is None:
                self._connection = opening.result()
            else:
                await wait_to_end(self._stop())

    def begin(self, work: Work[T]) -> asyncio.Future[T]:
        """Have the thread run a function; the future is done when the thread is."""
        connection = self._connection
        if not self._running or connection is None:
            raise StoreError("The store is closed; open it again.")

        def run() -> T:
            with store_errors(self.path):
                return work(connection)

        return self._submit(run)

    async def run(self, work: Work[T]) -> T:
        """The result of a function that runs on the database's thread."""
        return await self.begin(work)

    async def close(self) -> None:
        """Close after all that was begun and end the thread; a second call does nothing."""
        if not self._running:
            return
        await wait_to_end(self._stop())

    def _stop(self) -> asyncio.Future[Any]:
        stopping = self.stop()  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        return cast("asyncio.Future[Any]", stopping)

    def _submit(self, function: Callable[[], T]) -> asyncio.Future[T]:
        # Not aiosqlite's _execute: its future is cancelled with the waiting task, and then
        # nobody could tell when the thread is done.
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._tx.put_nowait((future, function))
        return future


async def wait_to_end(future: asyncio.Future[T], stop: Callable[[], None] | None = None) -> T:
    """The future's result, waited for to the end: a cancellation goes on only after that."""
    try:
        await asyncio.wait({future})
    except asyncio.CancelledError:
        if stop is not None:
            stop()
        with shield():
            while not future.done():
                with suppress(asyncio.CancelledError):
                    await asyncio.wait({future})
        future.exception()  # looked at, so that asyncio does not report it as lost
        raise
    return future.result()


def shield() -> AbstractContextManager[object]:
    """Keeps the block from being cancelled by a scope around it; such scopes are anyio's, so that
    where nobody has loaded it there is none."""
    if "anyio" not in sys.modules:
        return nullcontext()
    from anyio import CancelScope

    return CancelScope(shield=True)


def read_transaction(
    connection: sqlite3.Connection,
    work: Callable[..., T],
    args: tuple[Any, ...],
    check: Callable[[], None],
) -> T:
    """The result of a function that reads all from one moment; `check` refuses replaced files."""
    connection.execute("BEGIN")
    try:
        check()
        return work(connection, *args)
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


class Stop:
    """The wish to give up a transaction, which counts until its COMMIT has begun."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._wished = False
        self._committing = False

    def wish(self) -> None:
        """Ask for a rollback; too late once COMMIT has begun."""
        with self._guard:
            self._wished = not self._committing

    @property
    def wished(self) -> bool:
        """Whether the work should be given up."""
        return self._wished

    def raise_if_wished(self) -> None:
        """Give the work up, if that was asked for."""
        if self._wished:
            raise _Stopped

    def commit_or_raise(self) -> None:
        """Pass the point of no return, unless a rollback was asked for."""
        with self._guard:
            if self._wished:
                raise _Stopped
            self._committing = True


class _Stopped(Exception):
    """The transaction was given up; seen by nobody, since the caller was cancelled."""


@contextmanager
def stop_early(connection: sqlite3.Connection, stop: Stop) -> Generator[None]:
    """Have statements end early, with an error, once giving up is wished for."""
    connection.set_progress_handler(lambda: stop.wished, _STEPS_BETWEEN_LOOKS)
    try:
        yield
    finally:
        connection.set_progress_handler(None, 0)


def _do_nothing(_connection: sqlite3.Connection) -> None: ...


def write_transaction(
    connection: sqlite3.Connection,
    work: Work[T],
    stop: Stop,
    check: Work[None],
    note: Work[None],
) -> T:
    """The result of a function in one transaction, committed whole or not at all.

    `check` refuses files that were replaced: before the work, so that nothing is written to them,
    and after the commit, so that nothing is acknowledged that went to them after all. `note` is
    called last, with what is acknowledged.
    """
    try:
        with stop_early(connection, stop):
            connection.execute("BEGIN IMMEDIATE")
            check(connection)
            result = work(connection)
            stop.commit_or_raise()
            connection.execute("COMMIT")
        check(connection)
        note(connection)
        return result
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


class Writer:
    """The one way to write: in turn within the process, then under the lock file."""

    def __init__(
        self,
        database: Callable[[], Database],
        lock_file: LockFile,
        deadline: float,
        check: Work[None] = _do_nothing,
        note: Work[None] = _do_nothing,
    ) -> None:
        self._database = database
        self._lock_file = lock_file
        self._deadline = deadline
        self._checks = check, note
        self._turn = asyncio.Lock()

    async def transaction(self, work: Work[T]) -> T:
        """The result of a function that runs in one transaction."""
        stop = Stop()
        self._database()  # asked before the lock, which a store that is only read does not have
        async with self.hold_writes():
            database = self._database()
            check, note = self._checks
            writes = partial(write_transaction, work=work, stop=stop, check=check, note=note)
            running = database.begin(writes)
            return await wait_to_end(running, stop.wish)

    @asynccontextmanager
    async def hold_writes(self, deadline: float | None = None) -> AsyncGenerator[None]:
        """Holds the write lock for the block."""
        limit = self._deadline if deadline is None else deadline
        end = time.monotonic() + limit
        try:
            async with asyncio.timeout(limit):
                await self._turn.acquire()
        except TimeoutError:
            raise busy_error(self._lock_file.path, limit) from None
        try:
            await take(self._lock_file, end, limit)
            try:
                yield
            finally:
                self._lock_file.release()
        finally:
            self._turn.release()


async def take(lock_file: LockFile, end: float, limit: float) -> None:
    """Take a lock file, polling without ever blocking a thread, until `end` on the clock."""
    for pause in pauses():
        if lock_file.try_acquire():
            return
        if time.monotonic() >= end:
            raise busy_error(lock_file.path, limit)
        await asyncio.sleep(pause)


def is_purge_due(connection: sqlite3.Connection) -> bool:
    """Whether forgotten bytes may still lie in the file or its write-ahead log."""
    # A purge is for all tombstones there are, so the newest one speaks for them all.
    row = connection.execute("SELECT purged FROM tombstone ORDER BY id DESC LIMIT 1").fetchone()
    return row is not None and row[0] != _DONE


def purge(connection: sqlite3.Connection, stop: Stop) -> bool:
    """Remove all forgotten bytes; False, at no cost, while a reader needs the log."""
    with _without_waiting(connection):
        if not _empty_log(connection):
            return False
        _note_purge(connection, _DONE, _read_newest(connection), _LOG_ONLY)
        if not is_purge_due(connection):
            return True
        upto = _read_newest(connection)
        _rewrite(connection, stop)
        _note_purge(connection, _LOG_ONLY, upto, _DUE)
        if not _empty_log(connection):
            return False
        _note_purge(connection, _DONE, upto, _LOG_ONLY)
        return not is_purge_due(connection)


def _read_newest(connection: sqlite3.Connection) -> int:
    (newest,) = connection.execute("SELECT coalesce(max(id), 0) FROM tombstone").fetchone()
    return newest


def _note_purge(connection: sqlite3.Connection, state: int, upto: int, before: int) -> None:
    connection.execute(
        "UPDATE tombstone SET purged = ? WHERE id <= ? AND purged = ?", (state, upto, before)
    )


def _rewrite(connection: sqlite3.Connection, stop: Stop) -> None:
    """Write the file anew without what was forgotten.

    secure_delete is not enough: when SQLite moves rows between pages it leaves old copies in
    the gaps (found in 3 of 40 random stores), and only VACUUM builds every page afresh.
    """
    # The copy holds only what stays, and may be too large for memory.
    connection.execute("PRAGMA temp_store = FILE")
    try:
        with stop_early(connection, stop):
            connection.execute("VACUUM")
    finally:
        connection.execute("PRAGMA temp_store = MEMORY")


def _empty_log(connection: sqlite3.Connection) -> bool:
    """Empty the write-ahead log; False if a reader needs it."""
    return not connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]


@contextmanager
def _without_waiting(connection: sqlite3.Connection) -> Generator[None]:
    """Statements in the block do not wait for a reader: it may stay for hours."""
    patience = pragma(connection, "busy_timeout")
    connection.execute("PRAGMA busy_timeout = 0")
    try:
        yield
    finally:
        connection.execute(f"PRAGMA busy_timeout = {patience}")
