"""Transactions in PostgreSQL: each names its owner first, and is committed whole or not at all."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections import Counter
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from time import monotonic
from typing import NamedTuple, TypeVar
from urllib.parse import urlsplit

import anyio
import psycopg
from psycopg import Connection, Cursor, IsolationLevel, errors, sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg_pool import ConnectionPool, PoolTimeout

from mcp_compaction.errors import StoreBusy, StoreError, StoreFull, StoreReadOnly
from mcp_compaction.store.database import Stop, wait_to_end
from mcp_compaction.store.postgres.dialect import (
    PgRow,
    Statement,
    is_insert_of_values,
    rows_like_sqlites,
    rows_of,
    translate,
)
from mcp_compaction.store.postgres.schema import OWNER_SETTING, TABLES, grant_tables, migrate_tables
from mcp_compaction.store.sql import Cell

T = TypeVar("T")

_TRIES = 6  # of what certainly left nothing behind
_PAUSE = 0.1  # seconds before the second try; each further one waits twice as long
_CANCEL_SECONDS = 5.0
_MOST_TOGETHER = 256  # rows in one INSERT


class PoolLimits(NamedTuple):
    """How many connections a process has at most, and how long a call waits for one."""

    connections: int = 8
    seconds: float = 10.0


class PgTx:
    """One transaction of one owner, on a thread of its own."""

    def __init__(self, connection: Connection[PgRow], owner: str, stop: Stop) -> None:
        self._connection = connection
        self._stop = stop
        self.owner = owner

    def all(self, statement: str, **values: object) -> list[PgRow]:
        """The rows of a statement."""
        return self._do(statement, values).fetchall()

    def one(self, statement: str, **values: object) -> PgRow | None:
        """The first row of a statement."""
        return self._do(statement, values).fetchone()

    def run(self, statement: str, **values: object) -> int:
        """The number of rows that a statement wrote."""
        return self._do(statement, values).rowcount

    def execute(self, sql: str, parameters: Sequence[Cell] = ()) -> PgRows:
        """The rows that a statement of SQLite's gives."""
        return self._translated(translate(sql), parameters)

    def executemany(self, sql: str, parameters: Iterable[Sequence[Cell]]) -> None:
        """Run a statement of SQLite's for each of some rows; rows go in together."""
        rows = list(parameters)
        if not is_insert_of_values(sql):
            statement = translate(sql)
            bound = [statement.bind(row, self.owner) for row in rows]
            self._stop.raise_if_wished()
            if bound:
                self._connection.cursor().executemany(statement.sql.encode(), bound)
            return
        while rows:
            count = min(_MOST_TOGETHER, 1 << len(rows).bit_length() - 1)
            together, rows = rows[:count], rows[count:]
            self._translated(translate(sql, count), [one for row in together for one in row])

    def lock(self, session: int | None, *, subagents: bool = False) -> None:
        """Wait until nobody else writes to a session, nor to its subagents' if asked for; None:
        to any."""
        self.all(
            "SELECT id FROM session WHERE owner = %(owner)s AND (%(id)s::bigint IS NULL"
            " OR id = %(id)s OR %(subagents)s AND parent = %(id)s) ORDER BY id FOR UPDATE"
            if session is None or subagents
            else "SELECT id FROM session WHERE owner = %(owner)s AND id = %(id)s FOR UPDATE",
            id=session,
            subagents=subagents,
        )

    def take_turn(self) -> None:
        """Wait until nobody else makes sessions or pins of this owner."""
        self.run(
            "INSERT INTO counter (owner) VALUES (%(owner)s) ON CONFLICT (owner)"
            " DO UPDATE SET owner = excluded.owner"
        )

    def _translated(self, statement: Statement, parameters: Sequence[Cell]) -> PgRows:
        self._stop.raise_if_wished()
        cursor = self._connection.cursor(row_factory=rows_like_sqlites)
        cursor.execute(statement.sql.encode(), statement.bind(parameters, self.owner))
        return PgRows(cursor, cursor.fetchall()[0][0] if statement.gives_number else None)

    def _do(self, statement: str, values: Mapping[str, object]) -> Cursor[PgRow]:
        self._stop.raise_if_wished()
        return self._connection.execute(statement.encode(), {"owner": self.owner, **values})


class PgRows:
    """The rows that a statement of SQLite's gave."""

    def __init__(self, cursor: Cursor[PgRow], number: int | None) -> None:
        self._cursor = cursor
        self.rowcount = cursor.rowcount
        self.lastrowid = number
        self.fetchone = cursor.fetchone
        self.fetchall = cursor.fetchall

    def __iter__(self) -> Iterator[PgRow]:
        return iter(self._cursor)


class TeamDatabase:
    """A bounded pool of connections, which any owner's transactions take turns in.

    A transaction runs on a thread, so that the loop is never blocked. The thread cannot be
    cancelled: whoever waits for it has the server end its statement, and waits for the rollback.
    """

    def __init__(self, pool: ConnectionPool[Connection[PgRow]], place: str) -> None:
        self.pool = pool
        self.counts = Counter[str]()  # of what this process did
        self.place = place
        self._threads = ThreadPoolExecutor(pool.max_size, thread_name_prefix="store")
        self._turns = asyncio.Semaphore(pool.max_size)
        self._waiting = 0

    async def read(self, owner: str, work: Callable[[PgTx], T], seconds: float | None = None) -> T:
        """The result of a function that reads all from one moment.

        `seconds`: the longest wait for a connection, where the usual one is too long.
        """
        return await self._retry(lambda: self._run(owner, work, is_reading=True, seconds=seconds))

    async def write(self, owner: str, work: Callable[[PgTx], T]) -> T:
        """The result of a function in one transaction, committed whole or not at all."""
        return await self._retry(lambda: self._run(owner, work, is_reading=False))

    async def close(self) -> None:
        """Close the connections."""
        await anyio.to_thread.run_sync(self.pool.close)
        self._threads.shutdown(wait=False)

    def use_of_pool(self) -> dict[str, int]:
        """What the pool's connections do now, and how often and how long one was waited for."""
        stats = self.pool.get_stats()
        return {
            "size": stats.get("pool_size", 0),
            "free": stats.get("pool_available", 0),
            "waiting": self._waiting,
            "waits": self.counts["waits"],
            "milliseconds": self.counts["milliseconds"],
        }

    async def _retry(self, run: Callable[[], Awaitable[T]]) -> T:
        """Run a transaction, again where a lost connection or another's lock left nothing of it."""
        for attempt in range(_TRIES):
            try:
                return await run()
            except _LeftNothing as lost:
                if attempt == _TRIES - 1:
                    raise _lost_error(self.place) from lost.__cause__
                self.counts["retried"] += 1
                await anyio.sleep(_PAUSE * 2**attempt)
                # After a restart every idle connection is a dead one.
                await anyio.to_thread.run_sync(self.pool.check)
        raise AssertionError("the last try returns or raises")

    async def _run(
        self,
        owner: str,
        work: Callable[[PgTx], T],
        *,
        is_reading: bool,
        seconds: float | None = None,
    ) -> T:
        async with self._turn(self.pool.timeout if seconds is None else seconds):
            running = _Running()
            future = asyncio.get_running_loop().run_in_executor(
                self._threads, lambda: self._transact(owner, work, running, is_reading=is_reading)
            )
            result = await wait_to_end(future, running.give_up)
            self.counts["transactions"] += 1
            return result

    @asynccontextmanager
    async def _turn(self, seconds: float) -> AsyncGenerator[None]:
        """Waits inside the loop until a connection is free, and keeps it for the block."""
        began = monotonic()
        is_free = not self._turns.locked()
        if not is_free and self._waiting >= self.pool.max_waiting:
            raise self._busy_error()
        self._waiting += 1
        try:
            async with asyncio.timeout(seconds):
                await self._turns.acquire()
        except TimeoutError:
            raise self._busy_error() from None
        finally:
            self._waiting -= 1
            if not is_free:
                self.counts["waits"] += 1
                self.counts["milliseconds"] += round(1000 * (monotonic() - began))
        try:
            yield
        finally:
            self._turns.release()

    def _busy_error(self) -> StoreBusy:
        return StoreBusy(
            f"{self.place} has no connection free; wait a few seconds, then try again."
        )

    def _transact(
        self, owner: str, work: Callable[[PgTx], T], running: _Running, *, is_reading: bool
    ) -> T:
        is_committing = False
        try:
            with self.pool.connection() as connection, running.on(connection):
                _prepare(connection, is_reading=is_reading)
                connection.execute(_BEGIN, {"owner": owner})
                result = work(PgTx(connection, owner, running))
                running.commit_or_raise()
                is_committing = not is_reading
                connection.commit()
                return result
        except PoolTimeout:
            raise self._busy_error() from None
        except (errors.SerializationFailure, errors.DeadlockDetected) as lost:
            raise _LeftNothing from lost
        except (psycopg.OperationalError, psycopg.InterfaceError) as lost:
            if is_committing:
                raise StoreError(
                    f"The connection to {self.place} was lost while it committed: the write may "
                    "have been kept or not. Look at the session, then try again."
                ) from lost
            _raise_if_known(lost, self.place)
            raise _LeftNothing from lost
        except psycopg.Error as error:
            _raise_if_known(error, self.place)
            raise StoreError(f"{self.place}: {_one_line(error)}. Look at its log.") from error


class _Running(Stop):
    """A transaction on its thread, which may be given up from the loop."""

    def __init__(self) -> None:
        super().__init__()
        self._connection: Connection[PgRow] | None = None
        self._held = threading.Lock()

    @contextmanager
    def on(self, connection: Connection[PgRow]) -> Generator[None]:
        """Has the transaction run on a connection inside the block."""
        with self._held:
            self._connection = connection
        try:
            self.raise_if_wished()
            yield
        finally:
            with self._held:
                self._connection = None
            if self.wished:  # a late cancel would end what runs on it next
                connection.close()

    def give_up(self) -> None:
        """Have the server end what it does for the transaction, unless it commits."""
        self.wish()
        threading.Thread(target=self._cancel, name="cancel", daemon=True).start()

    def _cancel(self) -> None:
        with self._held:
            if self._connection is None or not self.wished:
                return
            try:
                self._connection.cancel_safe(timeout=_CANCEL_SECONDS)
            except psycopg.Error:  # the server is away, and the thread would wait for its answer
                with socket.socket(fileno=os.dup(self._connection.fileno())) as line:
                    line.shutdown(socket.SHUT_RDWR)


# The owner for row-level security, and that a commit waits for the disk, in one round trip.
_BEGIN = (
    f"SELECT set_config('{OWNER_SETTING}', %(owner)s, true),"
    " set_config('synchronous_commit', 'on', true)"
).encode()


def _prepare(connection: Connection[PgRow], *, is_reading: bool) -> None:
    connection.isolation_level = (
        IsolationLevel.REPEATABLE_READ if is_reading else IsolationLevel.READ_COMMITTED
    )
    connection.read_only = is_reading


class _LeftNothing(Exception):
    """A transaction failed before its commit had begun."""


def _raise_if_known(error: psycopg.Error, place: str) -> None:
    match error:
        case errors.DiskFull() | errors.OutOfMemory():
            raise StoreFull(f"{place} has no room left; free some, then try again.") from error
        case errors.ReadOnlySqlTransaction() | errors.InsufficientPrivilege():
            raise StoreReadOnly(f"{place} may not be written by this role; ask its owner.")
        case _:
            return


def _lost_error(place: str) -> StoreError:
    return StoreError(
        f"{place} cannot be reached; nothing was changed. See that it runs, then try again."
    )


def _one_line(error: psycopg.Error) -> str:
    return " ".join(str(error.diag.message_primary or type(error).__name__).split())


def shown_address(address: str) -> str:
    """An address without its password, fit to be shown."""
    parts = urlsplit(address)
    where = parts.netloc.rpartition("@")[2]
    return f"postgresql://{where}{parts.path}"


async def open_database(
    address: str, limits: PoolLimits | None = None, *, may_migrate: bool = True
) -> TeamDatabase:
    """A pool of connections to a database whose tables are up to date."""
    limits = limits or PoolLimits()
    place = shown_address(address)
    pool = ConnectionPool(
        _conninfo_of(address),
        connection_class=Connection[PgRow],
        kwargs={"row_factory": rows_of, "prepare_threshold": None},
        min_size=1,
        max_size=limits.connections,
        timeout=limits.seconds,
        max_waiting=limits.connections * 25,
        open=False,
    )

    def open_pool() -> None:
        try:
            pool.open(wait=True, timeout=limits.seconds)
            with pool.connection() as connection:
                migrate_tables(connection, place, may_migrate=may_migrate)
        except BaseException as error:
            pool.close()
            if isinstance(error, PoolTimeout | psycopg.OperationalError):
                raise _lost_error(place) from None  # libpq's text may show the address
            raise

    await anyio.to_thread.run_sync(open_pool)
    return TeamDatabase(pool, place)


def _conninfo_of(address: str) -> str:
    known = conninfo_to_dict(address)
    defaults = {"connect_timeout": 5, "application_name": "mcp-compaction"}
    return make_conninfo(address, **{n: v for n, v in defaults.items() if n not in known})


async def migrate(address: str, grant_to: str | None = None) -> None:
    """Bring the tables up to date as their owner, and let a server's role use their rows.

    That role is made where it is not there yet: it may log in, and pass no policy.
    """

    def work() -> None:
        with _connected(address, autocommit=False) as connection:
            migrate_tables(connection, shown_address(address))
            if grant_to is not None:
                grant_tables(connection, grant_to)

    await anyio.to_thread.run_sync(work)


async def check_may_purge(address: str) -> None:
    """Refuse a role that may not rewrite the tables: PostgreSQL would only warn it."""

    def work() -> None:
        with _connected(address) as connection:
            is_others = connection.execute(
                b"SELECT 1 FROM pg_class WHERE relname = ANY(%s) AND relkind = 'r'"
                b" AND relnamespace = current_schema()::regnamespace"
                b" AND NOT pg_has_role(relowner, 'USAGE')",
                (list(TABLES),),
            ).fetchone()
        if is_others is not None:
            raise StoreReadOnly(
                f"Only the role that owns the tables of {shown_address(address)} may rewrite them; "
                "name that role in MCP_COMPACTION_STORE. Nothing was forgotten."
            )

    await anyio.to_thread.run_sync(work)


async def purge(address: str) -> None:
    """Rewrite the tables, so that their files hold nothing of what was deleted.

    Each is locked meanwhile. The write-ahead log, replicas and dumps are not ours to rewrite.
    """

    def work() -> None:
        with _connected(address) as connection:
            for table in TABLES:
                statement = sql.SQL("VACUUM (FULL) {}").format(sql.Identifier(table))
                connection.execute(statement)

    await anyio.to_thread.run_sync(work)


@contextmanager
def _connected(address: str, *, autocommit: bool = True) -> Generator[Connection[PgRow]]:
    """One connection of its own, on which each statement is a transaction if nothing else is
    asked for."""
    try:
        with Connection[PgRow].connect(
            _conninfo_of(address),
            row_factory=rows_of,
            autocommit=autocommit,
            prepare_threshold=None,
        ) as connection:
            yield connection
    except psycopg.OperationalError:
        raise _lost_error(shown_address(address)) from None


@asynccontextmanager
async def opened(address: str, limits: PoolLimits | None = None) -> AsyncGenerator[TeamDatabase]:
    """A database that is closed afterwards."""
    database = await open_database(address, limits)
    try:
        yield database
    finally:
        await database.close()
