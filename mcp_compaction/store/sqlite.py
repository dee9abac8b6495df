"""The store as the rest of the program sees it; each method reads or writes by one function.

The modules that need formats or the core are imported by the methods: most commands only look
something up.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing, suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple

from mcp_compaction.core.text.paths import without_surrogates
from mcp_compaction.errors import (
    InputError,
    StoreBusy,
    StoreDamaged,
    StoreError,
    StoreMoved,
    StoreReadOnly,
)
from mcp_compaction.home import forget_files, new_file
from mcp_compaction.store import calls as model_calls
from mcp_compaction.store import passages, pins, sessions, thinking, transcripts, views
from mcp_compaction.store.claim import hold_claim, is_claimed
from mcp_compaction.store.connect import store_errors
from mcp_compaction.store.connections import Connections
from mcp_compaction.store.database import Stop, Writer, read_transaction, shield, wait_to_end
from mcp_compaction.store.lockfile import LockFile
from mcp_compaction.store.purge import is_purge_due, purge

if TYPE_CHECKING:
    from mcp_compaction.checks.file import HeldNote
    from mcp_compaction.model import (
        Compaction,
        Digest,
        Event,
        Hit,
        Logged,
        Matches,
        Message,
        ModelCall,
        Pin,
        Receipt,
        SearchQuery,
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
        KnownTranscript,
        Original,
        PinChange,
        PinFacts,
        Recorded,
        Scope,
        SessionKey,
        Twins,
        WindowCount,
    )
    from mcp_compaction.store.rows import Inventory, LooseRows, SessionRows

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


class SqliteStore:
    """Sessions in one SQLite file that several processes may use at once.

    What a method without a word of its own does is said in `ports`.
    """

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

    async def open_session(
        self, key: SessionKey, traits: Traits, now: datetime
    ) -> tuple[SessionInfo, bool]:
        return await self._write(sessions.open_session, key, traits, now)

    async def take_over(self, copy: int, key: SessionKey, said: Mapping[str, str]) -> bool:
        return await self._write(sessions.take_over, copy, key, said)

    async def find_session(self, scope: Scope, name: str) -> SessionInfo | None:
        return await self._read(sessions.find_session, scope, name)

    async def find_host_session(
        self, project: str, host_session: str, host: str | None = None
    ) -> SessionInfo | None:
        return await self._read(sessions.find_host_session, project, host_session, host)

    async def sessions(self, scope: Scope, limit: int) -> tuple[SessionInfo, ...]:
        return await self._read(sessions.list_sessions, scope, limit)

    async def set_traits(self, session: int, traits: Traits) -> SessionInfo:
        return await self._write(sessions.set_traits, session, traits)

    async def append(self, session: int, batch: Batch, now: datetime) -> Recorded:
        from mcp_compaction.store import log

        return await self._write(log.append, session, batch, now)

    async def find_transcript(self, address: str) -> KnownTranscript | None:
        return await self._read(transcripts.find_transcript, address)

    async def history(self, session: int) -> tuple[Logged, ...]:
        from mcp_compaction.store import log

        return await self._read(log.history, session)

    async def hearsay(self, session: int) -> tuple[Message, ...]:
        from mcp_compaction.store import log

        return await self._read(log.hearsay, session)

    async def vouch(self, session: int, seqs: Sequence[int]) -> None:
        from mcp_compaction.store import log

        await self._write(log.vouch, session, seqs)

    async def save_view(
        self, session: int, view: View, base_version: int, event: Event | None = None
    ) -> bool:
        return await self._write(views.save_view, session, view, base_version, event)

    async def calibrate(self, session: int, counted: int, reported: int) -> None:
        await self._write(sessions.calibrate, session, counted, reported)

    async def load(self, session: int, now: datetime, view: View | None = None) -> Session:
        from mcp_compaction.store.load import load

        return await self._read(load, session, now, view)

    async def count_window(
        self, session: int, now: datetime, known: WindowCount | None = None
    ) -> WindowCount:
        from mcp_compaction.store.load import count_window

        return await self._read(count_window, session, now, known)

    async def save(self, session: int, compaction: Compaction, event: Event | None = None) -> bool:
        return await self._write(views.save, session, compaction, event)

    async def save_prepared(self, session: int, prepared: Compaction) -> bool:
        return await self._write(views.save_prepared, session, prepared)

    async def prepared_view(self, session: int) -> View | None:
        return await self._read(views.prepared_view, session)

    def compacting(self, session: int, patience: float) -> AbstractAsyncContextManager[bool]:
        return hold_claim(self.path, session, patience)

    async def is_compacting(self, session: int) -> bool:
        return is_claimed(self.path, session)

    async def view(self, session: int, version: int) -> View:
        return await self._read(views.view, session, version)

    async def not_shown(self, session: int, seqs: Sequence[int]) -> tuple[int, ...]:
        from mcp_compaction.store.load import not_shown

        return await self._read(not_shown, session, seqs)

    async def shown_whole(self, session: int, seqs: Sequence[int]) -> tuple[int, ...]:
        from mcp_compaction.store.load import shown_whole

        return await self._read(shown_whole, session, seqs)

    async def digests(self, session: int) -> tuple[Digest, ...]:
        return await self._read(views.digests, session)

    async def receipts(self, session: int) -> tuple[tuple[Receipt, int], ...]:
        return await self._read(views.receipts, session)

    async def originals(
        self, scope: Scope, seqs: Sequence[int] = (), after: int = 0, limit: int = 1000
    ) -> tuple[Original, ...]:
        from mcp_compaction.store import log

        return await self._read(log.originals, scope, seqs, after, limit)

    async def count_answers(self, session: int) -> int:
        from mcp_compaction.store import log

        return await self._read(log.count_answers, session)

    async def messages_of_calls(
        self, scope: Scope, calls: Sequence[str]
    ) -> tuple[tuple[int, ...], ...]:
        from mcp_compaction.store import log

        return await self._read(log.messages_of_calls, scope, calls)

    async def find(self, scope: Scope, query: SearchQuery) -> Matches:
        from mcp_compaction.store import search

        return await self._read(search.find, scope, query)

    async def read(
        self, scope: Scope, query: SearchQuery, wanted: Sequence[Worth]
    ) -> tuple[Hit, ...]:
        from mcp_compaction.store import search

        return await self._read(search.read, scope, query, wanted)

    async def list_passages(self, scope: Scope, query: SearchQuery, limit: int) -> tuple[Hit, ...]:
        from mcp_compaction.store import search

        return await self._read(search.list_passages, scope, query, limit)

    async def search_many(
        self, scope: Scope, queries: Sequence[SearchQuery], limit: int
    ) -> tuple[tuple[int, ...], ...]:
        from mcp_compaction.store import search

        return await self._read(search.search_many, scope, queries, limit)

    async def pins(self, scope: Scope, now: datetime, released: bool = False) -> tuple[Pin, ...]:
        return await self._read(pins.pins, scope, now, released)

    async def pin_facts(
        self, scope: Scope, words: Sequence[str], limit: int, events: Sequence[str]
    ) -> PinFacts:
        """What decides about a pin, read at one moment."""
        from mcp_compaction.store import requests

        return await self._read(requests.pin_facts, scope, words, limit, events)

    async def change_pins(
        self, session: int, decide: Callable[[tuple[Pin, ...]], PinChange], now: datetime
    ) -> Pin | None:
        return await self._write_pins(pins.change_pins, session, decide, now)

    async def release_pin(self, scope: Scope, number: int, now: datetime) -> None:
        await self._write_pins(pins.release_pin, scope, number, now)

    async def set_checks(self, scope: Scope, number: int, checks: str) -> None:
        await self._write_pins(pins.set_checks, scope, number, checks)

    async def held(self) -> tuple[HeldNote, ...]:
        from mcp_compaction.checks.file import read_held

        return tuple(await asyncio.to_thread(lambda: list(read_held(self.path.parent))))

    async def renew_facts(self, numbers: Sequence[int], now: datetime, expires: datetime) -> None:
        await self._write(pins.renew_facts, numbers, now, expires)

    async def unannounced_pins(
        self, project: str, session: int | None, now: datetime
    ) -> tuple[Pin, ...]:
        return await self._read(pins.unannounced_pins, without_surrogates(project), session, now)

    async def mark_announced(self, project: str, numbers: Sequence[int]) -> None:
        # Where nothing can be written they are told again, which is better than not at all.
        with suppress(StoreReadOnly):
            await self._write(pins.mark_announced, without_surrogates(project), numbers)

    async def add_event(self, session: int, event: Event) -> None:
        await self._write(sessions.add_event, session, event)

    async def events(self, session: int, name: str | None = None) -> tuple[Event, ...]:
        return await self._read(sessions.events, session, name)

    async def add_calls(self, session: int, calls: Sequence[ModelCall], now: datetime) -> None:
        await self._write(model_calls.add_calls, session, calls, now)

    async def spent(self, session: int | None, since: datetime | None = None) -> Spent:
        return await self._read(model_calls.spent, session, since)

    async def thinking(self, session: int) -> dict[str, str]:
        return await self._read(thinking.thinking, session)

    async def keep_thinking(self, session: int, changes: Mapping[str, str | None]) -> None:
        await self._write(thinking.keep_thinking, session, changes)

    async def twins(self, scope: Scope, seq: int, within: Scope) -> Twins:
        from mcp_compaction.store import twins

        return await self._read(twins.twins, scope, seq, within)

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
        """All sessions there are, in the order in which they were made."""
        from mcp_compaction.store import row_tables

        return await self._read(row_tables.inventory_of_file)

    async def read_rows(self, session: int) -> SessionRows:
        """All rows of a session, from one moment."""
        from mcp_compaction.store import row_tables

        return await self._read(row_tables.read_rows, session)

    async def write_rows(self, rows: SessionRows) -> int:
        """Keep a session whole or not at all, where there is none of that name; its id."""
        from mcp_compaction.store import row_tables

        return await self._write(row_tables.write_rows, rows)

    async def read_loose_rows(self) -> LooseRows:
        """The rows that are not of one session alone."""
        from mcp_compaction.store import row_tables

        return await self._read(row_tables.read_loose_rows)

    async def write_loose_rows(self, rows: LooseRows) -> None:
        """Keep these, all or none; there is no pin of these numbers."""
        from mcp_compaction.store import row_tables

        await self._write_pins(row_tables.write_loose_rows, rows)

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
            write_rules(self.path.parent, pins.rules_with_checks(connection))
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
