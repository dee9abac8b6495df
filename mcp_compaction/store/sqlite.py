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
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

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

    async def open_session(
        self, key: SessionKey, traits: Traits, now: datetime
    ) -> tuple[SessionInfo, bool]:
        """The session of that key, and whether it was made just now."""
        return await self._write(lambda c: sessions.open_session(c, key, traits, now))

    async def take_over(self, copy: int, key: SessionKey, said: Mapping[str, str]) -> bool:
        """Give a session and its subagents' to a host, where they hold nothing but messages that
        it says: their contents, by the host's ids."""
        return await self._write(lambda c: sessions.take_over(c, copy, key, said))

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

    async def set_traits(self, session: int, traits: Traits) -> SessionInfo:
        """Set those traits of a session that are named; the others stay as they are."""
        return await self._write(lambda c: sessions.set_traits(c, session, traits))

    async def append(self, session: int, batch: Batch, now: datetime) -> Recorded:
        """Append what is not yet known; known messages keep their numbers."""
        from mcp_compaction.store import log

        return await self._write(lambda c: log.append(c, session, batch, now))

    async def find_transcript(self, address: str) -> KnownTranscript | None:
        """How far a transcript is recorded; None where nothing of it is."""
        return await self._read(lambda c: transcripts.find_transcript(c, address))

    async def history(self, session: int) -> tuple[Logged, ...]:
        """All messages of a session by their identity, in order."""
        from mcp_compaction.store import log

        return await self._read(lambda c: log.history(c, session))

    async def hearsay(self, session: int) -> tuple[Message, ...]:
        """The messages in the user's role that only somebody else told of, not the host."""
        from mcp_compaction.store import log

        return await self._read(lambda c: log.hearsay(c, session))

    async def vouch(self, session: int, seqs: Sequence[int]) -> None:
        """Note that the host itself tells of these messages, so that they are the user's."""
        from mcp_compaction.store import log

        await self._write(lambda c: log.vouch(c, session, seqs))

    async def save_view(
        self, session: int, view: View, base_version: int, event: Event | None = None
    ) -> bool:
        """Show a session by another view, without a compaction; False if its view has changed."""
        return await self._write(lambda c: views.save_view(c, session, view, base_version, event))

    async def calibrate(self, session: int, counted: int, reported: int) -> None:
        """Note our count of the window beside the provider's count of the same window."""
        await self._write(lambda c: sessions.calibrate(c, session, counted, reported))

    async def load(self, session: int, now: datetime, view: View | None = None) -> Session:
        """The session at this moment, seen through its newest view or through the one given."""
        from mcp_compaction.store.load import load

        return await self._read(lambda c: load(c, session, now, view))

    async def count_window(
        self, session: int, now: datetime, known: WindowCount | None = None
    ) -> WindowCount:
        """The count of a window; where its view is the known one, only what came since is read."""
        from mcp_compaction.store.load import count_window

        return await self._read(lambda c: count_window(c, session, now, known))

    async def save(self, session: int, compaction: Compaction, event: Event | None = None) -> bool:
        """Save view, digests, receipt, search rows and event; False if the view has changed."""
        return await self._write(lambda c: views.save(c, session, compaction, event))

    async def save_prepared(self, session: int, prepared: Compaction) -> bool:
        """Keep a view and its digests beside the shown view; False if that one has changed."""
        return await self._write(lambda c: views.save_prepared(c, session, prepared))

    async def prepared_view(self, session: int) -> View | None:
        """The view that was prepared beside the shown one; None where that has changed since."""
        return await self._read(lambda c: views.prepared_view(c, session))

    def compacting(self, session: int, patience: float) -> AbstractAsyncContextManager[bool]:
        """Claims the session inside the block; False if another process still compacts it."""
        return hold_claim(self.path, session, patience)

    async def is_compacting(self, session: int) -> bool:
        """Whether somebody compacts that session now."""
        return is_claimed(self.path, session)

    async def view(self, session: int, version: int) -> View:
        """A view of that session as it once was."""
        return await self._read(lambda c: views.view(c, session, version))

    async def not_shown(self, session: int, seqs: Sequence[int]) -> tuple[int, ...]:
        """The messages of these that the newest view no longer shows; none without a compaction."""
        from mcp_compaction.store.load import not_shown

        return await self._read(lambda c: not_shown(c, session, seqs))

    async def shown_whole(self, session: int, seqs: Sequence[int]) -> tuple[int, ...]:
        """The messages of these that the newest view shows whole; none without a compaction."""
        from mcp_compaction.store.load import shown_whole

        return await self._read(lambda c: shown_whole(c, session, seqs))

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
        from mcp_compaction.store import log

        return await self._read(lambda c: log.originals(c, scope, seqs, after, limit))

    async def count_answers(self, session: int) -> int:
        """How often the model has answered in that session."""
        from mcp_compaction.store import log

        return await self._read(lambda c: log.count_answers(c, session))

    async def messages_of_calls(
        self, scope: Scope, calls: Sequence[str]
    ) -> tuple[tuple[int, ...], ...]:
        """The messages of one session with each tool call and its result, by the call's id."""
        from mcp_compaction.store import log

        return await self._read(lambda c: log.messages_of_calls(c, scope, calls))

    async def find(self, scope: Scope, query: SearchQuery) -> Matches:
        """The places of each term of a query."""
        from mcp_compaction.store import search

        return await self._read(lambda c: search.find(c, scope, query))

    async def read(
        self, scope: Scope, query: SearchQuery, wanted: Sequence[Worth]
    ) -> tuple[Hit, ...]:
        """The texts of what is worth reading, in that order."""
        from mcp_compaction.store import search

        return await self._read(lambda c: search.read(c, scope, query, wanted))

    async def list_passages(self, scope: Scope, query: SearchQuery, limit: int) -> tuple[Hit, ...]:
        """The passages that a query means by its qualifiers alone, in order."""
        from mcp_compaction.store import search

        return await self._read(lambda c: search.list_passages(c, scope, query, limit))

    async def search_many(
        self, scope: Scope, queries: Sequence[SearchQuery], limit: int
    ) -> tuple[tuple[int, ...], ...]:
        """The numbers of the messages that match each query best, in one round trip."""
        from mcp_compaction.store import search

        return await self._read(lambda c: search.search_many(c, scope, queries, limit))

    async def pins(self, scope: Scope, now: datetime, released: bool = False) -> tuple[Pin, ...]:
        """The pins in force in the scope: its own, its project's and the global ones."""
        return await self._read(lambda c: pins.pins(c, scope, now, released))

    async def pin_facts(
        self, scope: Scope, words: Sequence[str], limit: int, events: Sequence[str]
    ) -> PinFacts:
        """What decides about a pin, read at one moment."""
        from mcp_compaction.store import requests

        return await self._read(lambda c: requests.pin_facts(c, scope, words, limit, events))

    async def change_pins(
        self, session: int, decide: Callable[[tuple[Pin, ...]], PinChange], now: datetime
    ) -> Pin | None:
        """Change the pins in force in a session as `decide` says when it is shown them."""
        return await self._write_pins(lambda c: pins.change_pins(c, session, decide, now))

    async def release_pin(self, scope: Scope, number: int, now: datetime) -> None:
        """Take a pin out of force; its text stays findable."""
        await self._write_pins(lambda c: pins.release_pin(c, scope, number, now))

    async def set_checks(self, scope: Scope, number: int, checks: str) -> None:
        """Set the checks beside a pin in force; blank: it has none."""
        await self._write_pins(lambda c: pins.set_checks(c, scope, number, checks))

    async def held(self) -> tuple[HeldNote, ...]:
        """The calls that checks held, of all sessions, the oldest first."""
        from mcp_compaction.checks.file import read_held

        return tuple(await asyncio.to_thread(lambda: list(read_held(self.path.parent))))

    async def renew_facts(self, numbers: Sequence[int], now: datetime, expires: datetime) -> None:
        """Note that a session used these project facts, which are to last until a moment."""
        await self._write(lambda c: pins.renew_facts(c, numbers, now, expires))

    async def unannounced_pins(
        self, project: str, session: int | None, now: datetime
    ) -> tuple[Pin, ...]:
        """The pins for the project or for everywhere that no other session was told of yet."""
        return await self._read(
            lambda c: pins.unannounced_pins(c, without_surrogates(project), session, now)
        )

    async def mark_announced(self, project: str, numbers: Sequence[int]) -> None:
        """Note that the project's sessions were told of these pins."""
        # Where nothing can be written they are told again, which is better than not at all.
        with suppress(StoreReadOnly):
            await self._write(
                lambda c: pins.mark_announced(c, without_surrogates(project), numbers)
            )

    async def add_event(self, session: int, event: Event) -> None:
        """Note that something happened."""
        await self._write(lambda c: sessions.add_event(c, session, event))

    async def events(self, session: int, name: str | None = None) -> tuple[Event, ...]:
        """The events of that session, oldest first; with a name only those of it."""
        return await self._read(lambda c: sessions.events(c, session, name))

    async def add_calls(self, session: int, calls: Sequence[ModelCall], now: datetime) -> None:
        """Note what was asked of models on behalf of a session."""
        await self._write(lambda c: model_calls.add_calls(c, session, calls, now))

    async def spent(self, session: int | None, since: datetime | None = None) -> Spent:
        """The sum of a session's model calls since a moment; None: of all sessions, ever."""
        return await self._read(lambda c: model_calls.spent(c, session, since))

    async def thinking(self, session: int) -> dict[str, str]:
        """The beginning that each thinking block of a session was made behind."""
        return await self._read(lambda c: thinking.thinking(c, session))

    async def keep_thinking(self, session: int, changes: Mapping[str, str | None]) -> None:
        """Keep the beginnings of thinking blocks; None: nothing is to be known of one."""
        await self._write(lambda c: thinking.keep_thinking(c, session, changes))

    async def twins(self, scope: Scope, seq: int, within: Scope) -> Twins:
        """The messages within a scope that hold all that one message of a session says."""
        from mcp_compaction.store import twins

        return await self._read(lambda c: twins.twins(c, scope, seq, within))

    async def forget(self, scope: Scope, seqs: Sequence[int], now: datetime) -> Forgotten:
        """Remove messages, or without any a session or a project, so that no byte is left."""
        from mcp_compaction.store import forget
        from mcp_compaction.store.outbox import Outbox

        def work(connection: sqlite3.Connection) -> Forgotten:
            self._connections.expect_fewer_rows()
            forgotten = forget.forget(connection, scope, seqs, now)
            passages.optimize(connection)
            return self._tell_hooks(connection, forgotten)

        calls = await self._read(lambda c: forget.list_calls(c, scope, seqs))
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
        """Write a sound copy of the store to a new file."""
        await self._connections.reading.run(lambda c: _back_up(c, target))

    async def inventory(self) -> Inventory:
        """All sessions there are, in the order in which they were made."""
        from mcp_compaction.store import row_tables

        return await self._read(row_tables.inventory_of_file)

    async def read_rows(self, session: int) -> SessionRows:
        """All rows of a session, from one moment."""
        from mcp_compaction.store import row_tables

        return await self._read(lambda c: row_tables.read_rows(c, session))

    async def write_rows(self, rows: SessionRows) -> int:
        """Keep a session whole or not at all, where there is none of that name; its id."""
        from mcp_compaction.store import row_tables

        return await self._write(lambda c: row_tables.write_rows(c, rows))

    async def read_loose_rows(self) -> LooseRows:
        """The rows that are not of one session alone."""
        from mcp_compaction.store import row_tables

        return await self._read(row_tables.read_loose_rows)

    async def write_loose_rows(self, rows: LooseRows) -> None:
        """Keep these, all or none; there is no pin of these numbers."""
        from mcp_compaction.store import row_tables

        await self._write_pins(lambda c: row_tables.write_loose_rows(c, rows))

    async def repair(self) -> None:
        """Build the search index anew from its texts; rows that a lost log held are given up."""
        self._connections.forgive_loss()
        await self._write(passages.rebuild)

    async def health(self) -> Health:
        """Look the store over without changing it."""
        from mcp_compaction.store.health import health

        why, doubt = self._connections.why_read_only, self._connections.doubt
        doubt = doubt and f"the store was looked over: {doubt}"
        if why is None:
            try:
                # The check of the search index is an INSERT, so it needs the writing connection.
                return await self._write(lambda c: health(c, self.path, notes=[doubt]))
            except StoreDamaged:
                damage = self._connections.damage
                return await self._read(lambda c: health(c, self.path, damage, [doubt]))
        return await self._read(lambda c: health(c, self.path, notes=[why]))

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

    async def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        check = self._connections.check_to_read
        async with self._recover_if_moved():
            return await self._connections.reading.run(lambda c: read_transaction(c, work, check))

    async def _write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        async with self._recover_if_moved():
            result, is_due = await self._writer.transaction(lambda c: (work(c), is_purge_due(c)))
        if is_due:
            await self._purge_if_possible()
        return result

    async def tell_hooks(self) -> None:
        """Write the checks in force down anew, where the store has become another one."""
        await self._write_pins(lambda _: None)

    async def _write_pins(self, work: Callable[[sqlite3.Connection], T]) -> T:
        return await self._write(lambda c: self._tell_hooks(c, work(c)))

    def _tell_hooks(self, connection: sqlite3.Connection, result: T) -> T:
        """Write down the checks in force, for hooks: while the store is locked, so that the file is
        never older than the store."""
        from mcp_compaction.checks.file import write_rules

        try:
            write_rules(self.path.parent, pins.rules_with_checks(connection))
        except OSError as error:
            logger.warning("the checks of pins were not written for hooks: %s", error)
        return result

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


def _back_up(connection: sqlite3.Connection, target: Path) -> None:
    with store_errors(target):
        try:
            with new_file(target), closing(sqlite3.connect(target, isolation_level=None)) as copy:
                connection.backup(copy)
        except FileExistsError:
            raise InputError(f"{target} is already there; choose a new file.") from None
