"""The store in one file: what only SQLite does, and how its functions are run."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing, suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple

from mcp_compaction.errors import (
    InputError,
    StoreBusy,
    StoreDamaged,
    StoreError,
    StoreMoved,
    StoreReadOnly,
)
from mcp_compaction.home import forget_files, new_file
from mcp_compaction.store import passages, views
from mcp_compaction.store.claim import hold_claim, is_claimed
from mcp_compaction.store.connect import store_errors
from mcp_compaction.store.connections import Connections
from mcp_compaction.store.database import (
    Stop,
    Writer,
    is_purge_due,
    purge,
    read_transaction,
    shield,
    wait_to_end,
)
from mcp_compaction.store.lockfile import LockFile
from mcp_compaction.store.sql_store import SqlStore

if TYPE_CHECKING:
    from mcp_compaction.checks.file import HeldNote
    from mcp_compaction.ports import Forgotten, Health, Scope
    from mcp_compaction.store.row_tables import Inventory

logger = logging.getLogger(__name__)

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_CLOSE_DEADLINE = 1.0  # a host gives its server two seconds to go
_PAUSE_BETWEEN_PURGES = 0.05


async def open_store(path: Path, deadline: float = 30.0) -> SqliteStore:
    """The store in that file, made or migrated if need be."""
    connections = Connections(path, LockFile(path), deadline)
    store = SqliteStore(connections, deadline)
    try:
        await connections.open()
        with suppress(StoreDamaged):  # it is told to who writes; the rest can be read
            await store.finish_purge()
    except BaseException:
        await store.close()
        raise
    return store


async def open_to_read(path: Path, deadline: float = 30.0) -> SqliteStore:
    """The store in a file that is there; nothing of it is changed, made or migrated."""
    if not path.is_file():
        raise InputError(f"there is no store {path}; name the file of one.")
    connections = Connections(path, LockFile(path), deadline)
    await connections.open_read_only(StoreReadOnly("it was opened to be read"))
    return SqliteStore(connections, deadline)


class SqliteStore(SqlStore):
    """Sessions in one SQLite file that several processes may use at once."""

    def __init__(self, connections: Connections, deadline: float) -> None:
        self.path = connections.path
        self._connections = connections
        self._writer = Writer(
            lambda: connections.writing,
            connections.lock_file,
            deadline,
            connections.check,
            connections.acknowledge,
        )
        self._closing = asyncio.Lock()
        self._is_open = True

    def compacting(self, session: int, patience: float) -> AbstractAsyncContextManager[bool]:
        return hold_claim(self.path, session, patience)

    async def is_compacting(self, session: int) -> bool:
        return is_claimed(self.path, session)

    async def held(self) -> tuple[HeldNote, ...]:
        """The calls that checks held, as hooks noted them beside the file."""
        from mcp_compaction.checks.file import read_held

        return tuple(await asyncio.to_thread(lambda: list(read_held(self.path.parent))))

    async def forget(self, scope: Scope, seqs: Sequence[int], now: datetime) -> Forgotten:
        """Remove messages, or without any a session or a project, so that no byte is left."""
        from mcp_compaction.store import forget
        from mcp_compaction.store.outbox import Outbox

        def work(connection: sqlite3.Connection) -> Forgotten:
            self._connections.expect_fewer_rows()
            forgotten = forget.forget(connection, scope, seqs, now)
            passages.optimize(connection)
            self._tell_hooks(connection)
            return forgotten

        calls = await self._read(forget.list_calls, scope, seqs)
        async with self._recover_if_moved():
            forgotten = await self._writer.transaction(work)
        chats = await self._read(forget.list_chats)
        await asyncio.to_thread(forget_files, self.path.parent, chats, calls)
        await asyncio.to_thread(Outbox(self.path.parent).forget_words)
        if not await self._purge(tries=8):
            raise StoreBusy(
                f"All of it is forgotten, but another program keeps old bytes in {self.path}-wal; "
                "close the programs that use the store, and they go with it."
            )
        return forgotten

    async def finish_purge(self) -> None:
        """Remove what an earlier forget could not, if that is possible by now."""
        if self._connections.why_read_only is None and await self._read(is_purge_due):
            await self._purge_if_possible()

    async def backup(self, target: Path) -> None:
        await self._connections.reading.run(partial(_back_up, target=target))

    async def inventory(self) -> Inventory:
        """All sessions of a file whose tables are up to date."""
        from mcp_compaction.store import row_tables

        return await self._read(row_tables.inventory_of_file)

    async def repair(self) -> None:
        """Build the search index anew from its texts; rows that a lost log held are given up."""
        self._connections.forgive_loss()
        await self._write(passages.rebuild)

    async def health(self) -> Health:
        from mcp_compaction.store.health import health

        why, doubt = self._connections.why_read_only, self._connections.doubt
        doubt = doubt and f"the store was looked over: {doubt}"
        if why is None:
            try:
                # The check of the search index is an INSERT, so it needs the writing connection.
                return await self._write(health, self.path, None, [doubt])
            except StoreDamaged:
                damage = self._connections.damage
                return await self._read(health, self.path, damage, [doubt])
        return await self._read(health, self.path, None, [why])

    async def close(self) -> None:
        """Let go of the file; a second call does nothing."""
        with shield():
            async with self._closing:
                if self._is_open:
                    await self._close()
                    self._is_open = False

    async def _close(self) -> None:
        connections = self._connections
        try:
            await connections.close_reading()
            # The last to close a store checkpoints it, which is done under the lock.
            with suppress(StoreBusy):
                if connections.needs_lock:
                    async with self._writer.hold_writes(_CLOSE_DEADLINE):
                        await connections.close()
            # Late would be worse than without the lock: the host is about to kill us.
            await connections.close()
        finally:
            connections.lock_file.close()

    async def _read(self, work: Callable[[sqlite3.Connection, *Ts], T], *args: *Ts) -> T:
        check = self._connections.check_to_read
        reads = partial(read_transaction, work=work, args=args, check=check)
        async with self._recover_if_moved():
            return await self._connections.reading.run(reads)

    async def _write(self, work: Callable[[sqlite3.Connection, *Ts], T], *args: *Ts) -> T:
        return await self._change(work, args)

    async def _write_to(
        self, work: Callable[[sqlite3.Connection, int, *Ts], T], session: int, *args: *Ts
    ) -> T:
        return await self._change(work, (session, *args))

    async def _write_pins(self, work: Callable[[sqlite3.Connection, *Ts], T], *args: *Ts) -> T:
        return await self._change(work, args, self._tell_hooks)

    async def _change(
        self,
        work: Callable[..., T],
        args: tuple[Any, ...],
        then: Callable[[sqlite3.Connection], None] | None = None,
    ) -> T:
        writes = partial(_write_at_once, work=work, args=args, then=then)
        async with self._recover_if_moved():
            result, is_due = await self._writer.transaction(writes)
        if is_due:
            await self._purge_if_possible()
        return result

    async def tell_hooks(self) -> None:
        """Write the checks in force down anew, where the store has become another one."""
        await self._write(self._tell_hooks)

    def _tell_hooks(self, connection: sqlite3.Connection) -> None:
        """Write down the checks in force, for hooks: while the store is locked, so that the file is
        never older than the store."""
        from mcp_compaction.checks.file import write_rules

        try:
            write_rules(self.path.parent, views.rules_with_checks(connection))
        except OSError as error:
            logger.warning("the checks of pins were not written for hooks: %s", error)

    @asynccontextmanager
    async def _recover_if_moved(self) -> AsyncGenerator[None]:
        """Reopen a store whose files were replaced or may be written again.

        This call fails, the next one works.
        """
        try:
            yield
        except StoreReadOnly:
            if self._connections.may_be_written_again:
                await self._connections.reopen()
            raise
        except StoreDamaged:
            self._connections.suspect()
            raise
        except StoreMoved:
            if self._connections.why_read_only is not None:
                await self._connections.reopen()
            else:
                async with self._writer.hold_writes():
                    await self._connections.recover()
            raise

    async def _purge_if_possible(self) -> None:
        # Whatever keeps it from being done keeps nobody from using the store; doctor tells.
        with suppress(StoreError):
            await self._purge(tries=1)

    async def _purge(self, tries: int) -> bool:
        """Remove forgotten bytes; False if a reader kept the log at every try."""
        for number in range(tries):
            if number:
                await asyncio.sleep(_PAUSE_BETWEEN_PURGES)
            if await self._purge_once(Stop()):
                return True
        return False

    async def _purge_once(self, stop: Stop) -> bool:
        def work(connection: sqlite3.Connection) -> bool:
            self._connections.check(connection)
            return purge(connection, stop)

        async with self._writer.hold_writes():
            return await wait_to_end(self._connections.writing.begin(work), stop.wish)


def _write_at_once(
    connection: sqlite3.Connection,
    work: Callable[..., T],
    args: tuple[Any, ...],
    then: Callable[[sqlite3.Connection], None] | None,
) -> tuple[T, bool]:
    """The result of a function, and whether a purge is due after it; `then`: what is done last."""
    result = work(connection, *args)
    if then is not None:
        then(connection)
    return result, is_purge_due(connection)


def _back_up(connection: sqlite3.Connection, target: Path) -> None:
    with store_errors(target):
        try:
            with new_file(target), closing(sqlite3.connect(target, isolation_level=None)) as copy:
                connection.backup(copy)
        except FileExistsError:
            raise InputError(f"{target} is already there; choose a new file.") from None
