"""Transactions in PostgreSQL: each names its owner first, and is committed whole or not at all."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

import anyio
import psycopg
from psycopg import AsyncConnection, IsolationLevel, errors, sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from mcp_compaction.errors import (
    StoreBusy,
    StoreError,
    StoreFull,
    StoreNewer,
    StoreReadOnly,
)
from mcp_compaction.store.postgres.schema import (
    LOCK,
    MIGRATIONS,
    OWNER_SETTING,
    READ_ONLY,
    SCHEMA_VERSION,
    TABLES,
)

T = TypeVar("T")
Row = dict[str, Any]

_TRIES = 6  # of what certainly left nothing behind
_PAUSE = 0.1  # seconds before the second try; each further one waits twice as long


class PoolLimits(NamedTuple):
    """How many connections a process has at most, and how long a call waits for one."""

    connections: int = 8
    seconds: float = 10.0


class Tx:
    """One transaction of one owner."""

    def __init__(self, connection: AsyncConnection[Row], owner: str) -> None:
        self._connection = connection
        self.owner = owner

    async def all(self, statement: str, **values: object) -> list[Row]:
        """The rows of a statement."""
        cursor = await self._connection.execute(statement.encode(), {"owner": self.owner, **values})
        return await cursor.fetchall()

    async def one(self, statement: str, **values: object) -> Row | None:
        """The first row of a statement."""
        cursor = await self._connection.execute(statement.encode(), {"owner": self.owner, **values})
        return await cursor.fetchone()

    async def run(self, statement: str, **values: object) -> int:
        """The number of rows that a statement wrote."""
        cursor = await self._connection.execute(statement.encode(), {"owner": self.owner, **values})
        return cursor.rowcount


class TeamDatabase:
    """A bounded pool of connections, which any owner's transactions take turns in."""

    def __init__(self, pool: AsyncConnectionPool[AsyncConnection[Row]], place: str) -> None:
        self.pool = pool
        self.counts = Counter[str]()  # of what this process did
        self.place = place

    async def read(
        self, owner: str, work: Callable[[Tx], Awaitable[T]], seconds: float | None = None
    ) -> T:
        """The result of a function that reads all from one moment.

        `seconds`: the longest wait for a connection, where the usual one is too long.
        """
        return await self._retry(lambda: self._run(owner, work, is_reading=True, seconds=seconds))

    async def write(self, owner: str, work: Callable[[Tx], Awaitable[T]]) -> T:
        """The result of a function in one transaction, committed whole or not at all."""
        return await self._retry(lambda: self._run(owner, work, is_reading=False))

    async def close(self) -> None:
        """Close the connections."""
        await self.pool.close()

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
                await self.pool.check()  # after a restart every idle connection is a dead one
        raise AssertionError("the last try returns or raises")

    async def _run(
        self,
        owner: str,
        work: Callable[[Tx], Awaitable[T]],
        *,
        is_reading: bool,
        seconds: float | None = None,
    ) -> T:
        is_committing = False
        try:
            async with self.pool.connection(timeout=seconds) as connection:
                await _prepare(connection, is_reading=is_reading)
                await connection.execute(_BEGIN, {"owner": owner})
                result = await work(Tx(connection, owner))
                is_committing = not is_reading
                await connection.commit()
                self.counts["transactions"] += 1
                return result
        except PoolTimeout:
            raise StoreBusy(
                f"{self.place} has no connection free; wait a few seconds, then try again."
            ) from None
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


# The owner for row-level security, and that a commit waits for the disk, in one round trip.
_BEGIN = (
    f"SELECT set_config('{OWNER_SETTING}', %(owner)s, true),"
    " set_config('synchronous_commit', 'on', true)"
).encode()


async def _prepare(connection: AsyncConnection[Row], *, is_reading: bool) -> None:
    level = IsolationLevel.REPEATABLE_READ if is_reading else IsolationLevel.READ_COMMITTED
    await connection.set_isolation_level(level)
    await connection.set_read_only(is_reading)


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


def plain(text: str) -> str:
    """A text as PostgreSQL can hold it: half a character as U+FFFD, NUL as its sign."""
    if "\0" in text:
        text = text.replace("\0", "\u2400")
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


async def open_database(
    address: str, limits: PoolLimits | None = None, *, may_migrate: bool = True
) -> TeamDatabase:
    """A pool of connections to a database whose tables are up to date."""
    limits = limits or PoolLimits()
    place = shown_address(address)
    pool = AsyncConnectionPool(
        _conninfo_of(address),
        connection_class=AsyncConnection[Row],
        kwargs={"row_factory": dict_row, "prepare_threshold": None},
        min_size=1,
        max_size=limits.connections,
        timeout=limits.seconds,
        max_waiting=limits.connections * 25,
        open=False,
    )
    try:
        await pool.open(wait=True, timeout=limits.seconds)
        async with pool.connection() as connection:
            await _migrate(connection, place, may_migrate=may_migrate)
    except BaseException as error:
        await pool.close()
        if isinstance(error, PoolTimeout | psycopg.OperationalError):
            raise _lost_error(place) from None  # libpq's text may show the address
        raise
    return TeamDatabase(pool, place)


def _conninfo_of(address: str) -> str:
    known = conninfo_to_dict(address)
    defaults = {"connect_timeout": 5, "application_name": "mcp-compaction"}
    return make_conninfo(address, **{n: v for n, v in defaults.items() if n not in known})


async def migrate(address: str, grant_to: str | None = None) -> None:
    """Bring the tables up to date as their owner, and let a server's role use their rows.

    That role is made where it is not there yet: it may log in, and pass no policy.
    """
    place = shown_address(address)
    try:
        async with await AsyncConnection[Row].connect(
            _conninfo_of(address), row_factory=dict_row, prepare_threshold=None
        ) as connection:
            await _migrate(connection, place)
            if grant_to is not None:
                await _grant(connection, grant_to)
    except psycopg.OperationalError:
        raise _lost_error(place) from None


async def check_may_purge(address: str) -> None:
    """Refuse a role that may not rewrite the tables: PostgreSQL would only warn it."""
    async with _connected(address) as connection:
        cursor = await connection.execute(
            b"SELECT 1 FROM pg_class WHERE relname = ANY(%s) AND relkind = 'r'"
            b" AND relnamespace = current_schema()::regnamespace"
            b" AND NOT pg_has_role(relowner, 'USAGE')",
            (list(TABLES),),
        )
        if await cursor.fetchone() is not None:
            raise StoreReadOnly(
                f"Only the role that owns the tables of {shown_address(address)} may rewrite them; "
                "name that role in MCP_COMPACTION_STORE. Nothing was forgotten."
            )


async def purge(address: str) -> None:
    """Rewrite the tables, so that their files hold nothing of what was deleted.

    Each is locked meanwhile. The write-ahead log, replicas and dumps are not ours to rewrite.
    """
    async with _connected(address) as connection:
        for table in TABLES:
            statement = sql.SQL("VACUUM (FULL) {}").format(sql.Identifier(table))
            await connection.execute(statement)


@asynccontextmanager
async def _connected(address: str) -> AsyncGenerator[AsyncConnection[Row]]:
    """One connection of its own, on which each statement is a transaction."""
    try:
        async with await AsyncConnection[Row].connect(
            _conninfo_of(address), row_factory=dict_row, autocommit=True, prepare_threshold=None
        ) as connection:
            yield connection
    except psycopg.OperationalError:
        raise _lost_error(shown_address(address)) from None


async def _grant(connection: AsyncConnection[Row], role: str) -> None:
    cursor = await connection.execute(b"SELECT 1 FROM pg_roles WHERE rolname = %s", (role,))
    name = sql.Identifier(role)
    if await cursor.fetchone() is None:
        await connection.execute(
            sql.SQL("CREATE ROLE {} LOGIN NOSUPERUSER NOBYPASSRLS").format(name)
        )
    for table in TABLES:
        await connection.execute(
            sql.SQL("GRANT SELECT, INSERT, UPDATE, DELETE ON {} TO {}").format(
                sql.Identifier(table), name
            )
        )
    for table in READ_ONLY:
        await connection.execute(
            sql.SQL("GRANT SELECT ON {} TO {}").format(sql.Identifier(table), name)
        )


async def _migrate(
    connection: AsyncConnection[Row], place: str, *, may_migrate: bool = True
) -> None:
    """Bring the tables up to date; whoever comes second waits and finds it done."""
    version = await _read_version(connection)
    await connection.rollback()
    if version > SCHEMA_VERSION:
        raise StoreNewer(f"{place} was made by a newer mcp-compaction; update this one.")
    if version == SCHEMA_VERSION:
        return
    if not may_migrate:
        raise StoreError(
            f"The tables of {place} are of schema {version}, and {SCHEMA_VERSION} is needed; "
            "run as their owner: mcp-compaction migrate"
        )
    try:
        await connection.execute(f"SELECT pg_advisory_xact_lock({LOCK})".encode())
        await connection.execute(
            b"CREATE TABLE IF NOT EXISTS migration (version bigint PRIMARY KEY)"
        )
        for number in range(await _read_version(connection), SCHEMA_VERSION):
            for statement in MIGRATIONS[number]:
                await connection.execute(statement.encode())
            await connection.execute(b"INSERT INTO migration (version) VALUES (%s)", (number + 1,))
        await connection.commit()
    except errors.InsufficientPrivilege:
        raise StoreReadOnly(
            f"The tables of {place} are of schema {version}, {SCHEMA_VERSION} is needed, and this "
            "role may not make them; run once as their owner: mcp-compaction migrate --store …"
        ) from None


async def _read_version(connection: AsyncConnection[Row]) -> int:
    cursor = await connection.execute(b"SELECT to_regclass('migration') IS NOT NULL AS is_there")
    row = await cursor.fetchone()
    if row is None or not row["is_there"]:
        return 0
    cursor = await connection.execute(b"SELECT coalesce(max(version), 0) AS v FROM migration")
    row = await cursor.fetchone()
    return 0 if row is None else int(row["v"])


@asynccontextmanager
async def opened(address: str, limits: PoolLimits | None = None) -> AsyncGenerator[TeamDatabase]:
    """A database that is closed afterwards."""
    database = await open_database(address, limits)
    try:
        yield database
    finally:
        await database.close()
