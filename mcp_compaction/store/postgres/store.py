"""The store of a team as the rest of the program sees it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from datetime import datetime
from pathlib import Path
from typing import TypeVar

import anyio

from mcp_compaction.checks.file import HeldNote
from mcp_compaction.core.text.paths import without_surrogates
from mcp_compaction.errors import InputError, StoreReadOnly
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
from mcp_compaction.store import (
    align,
    forget,
    load,
    log,
    passages,
    pins,
    requests,
    row_tables,
    sessions,
    thinking,
    transcripts,
    twins,
    views,
)
from mcp_compaction.store import calls as model_calls
from mcp_compaction.store.postgres import known, search
from mcp_compaction.store.postgres import passages as postings
from mcp_compaction.store.postgres import requests as found_requests
from mcp_compaction.store.postgres import rows as numbers
from mcp_compaction.store.postgres.claim import drop_claims, hold_claim, is_claimed
from mcp_compaction.store.postgres.database import PgTx, PoolLimits, TeamDatabase, open_database
from mcp_compaction.store.postgres.health import health
from mcp_compaction.store.rows import Inventory, LooseRows, SessionRows

T = TypeVar("T")

# What PostgreSQL does in its own way; all other statements are SQLite's.
align.read_known.register(PgTx, known.read_known)
requests.find_requests.register(PgTx, found_requests.find_requests)
passages.insert.register(PgTx, postings.insert)
passages.delete.register(PgTx, postings.delete)
passages.delete_session.register(PgTx, postings.delete_session)
row_tables.last_pin.register(PgTx, numbers.last_pin)
row_tables.expect_pins.register(PgTx, numbers.expect_pins)


async def open_store(address: str, owner: str, limits: PoolLimits | None = None) -> PostgresStore:
    """The store of one owner in that database, whose tables are made or migrated if need be."""
    return PostgresStore(await open_database(address, limits), owner)


async def open_to_read(address: str, owner: str) -> PostgresStore:
    """The store of one owner in a database whose tables are up to date; none is changed."""
    return PostgresStore(await open_database(address, may_migrate=False), owner)


class PostgresStore:
    """One owner's sessions in a PostgreSQL that many processes use at once."""

    def __init__(self, database: TeamDatabase, owner: str, is_shared: bool = False) -> None:
        """`is_shared`: the database is closed by whoever opened it."""
        self._database = database
        self.owner = owner
        self._is_shared = is_shared

    async def open_session(
        self, key: SessionKey, traits: Traits, now: datetime
    ) -> tuple[SessionInfo, bool]:
        """The session of that key, and whether it was made just now."""

        def make(tx: PgTx) -> tuple[SessionInfo, bool]:
            if not sessions.is_known(tx, key):
                tx.take_turn()  # somebody else may be making it
            return sessions.open_session(tx, key, traits, now)

        return await self._write(make)

    async def take_over(self, copy: int, key: SessionKey, said: Mapping[str, str]) -> bool:
        """Give a session and its subagents' to a host, where they hold nothing but messages that
        it says: their contents, by the host's ids."""

        def work(tx: PgTx) -> bool:
            tx.take_turn()
            tx.lock(copy, subagents=True)
            return sessions.take_over(tx, copy, key, said)

        return await self._write(work)

    async def find_session(self, scope: Scope, name: str) -> SessionInfo | None:
        """The session of that name in the scope."""
        return await self._read(lambda tx: sessions.find_session(tx, scope, name))

    async def find_host_session(
        self, project: str, host_session: str, host: str | None = None
    ) -> SessionInfo | None:
        """The session that a host knows by this id of its own."""
        return await self._read(
            lambda tx: sessions.find_host_session(tx, project, host_session, host)
        )

    async def sessions(self, scope: Scope, limit: int) -> tuple[SessionInfo, ...]:
        """The sessions of the scope, the newest first."""
        return await self._read(lambda tx: sessions.list_sessions(tx, scope, limit))

    async def set_traits(self, session: int, traits: Traits) -> SessionInfo:
        """Set those traits of a session that are named; the others stay as they are."""
        return await self._write(lambda tx: sessions.set_traits(tx, session, traits), session)

    async def append(self, session: int, batch: Batch, now: datetime) -> Recorded:
        """Append what is not yet known; known messages keep their numbers."""
        return await self._write(lambda tx: log.append(tx, session, batch, now), session)

    async def find_transcript(self, address: str) -> KnownTranscript | None:
        """How far a transcript is recorded; None where nothing of it is."""
        return await self._read(lambda tx: transcripts.find_transcript(tx, address))

    async def history(self, session: int) -> tuple[Logged, ...]:
        """All messages of a session by their identity, in order."""
        return await self._read(lambda tx: log.history(tx, session))

    async def hearsay(self, session: int) -> tuple[Message, ...]:
        """The messages in the user's role that only somebody else told of, not the host."""
        return await self._read(lambda tx: log.hearsay(tx, session))

    async def vouch(self, session: int, seqs: Sequence[int]) -> None:
        """Note that the host itself tells of these messages, so that they are the user's."""
        await self._write(lambda tx: log.vouch(tx, session, seqs), session)

    async def save_view(
        self, session: int, view: View, base_version: int, event: Event | None = None
    ) -> bool:
        """Show a session by another view, without a compaction; False if its view has changed."""
        return await self._write(
            lambda tx: views.save_view(tx, session, view, base_version, event), session
        )

    async def calibrate(self, session: int, counted: int, reported: int) -> None:
        """Note our count of the window beside the provider's count of the same window."""
        await self._write(lambda tx: sessions.calibrate(tx, session, counted, reported), session)

    async def load(self, session: int, now: datetime, view: View | None = None) -> Session:
        """The session at this moment, seen through its newest view or through the one given."""
        return await self._read(lambda tx: load.load(tx, session, now, view))

    async def count_window(
        self, session: int, now: datetime, known: WindowCount | None = None
    ) -> WindowCount:
        """The count of a window; where its view is the known one, only what came since is read."""
        return await self._read(lambda tx: load.count_window(tx, session, now, known))

    async def save(self, session: int, compaction: Compaction, event: Event | None = None) -> bool:
        """Save view, digests, receipt, search rows and event; False if the view has changed."""
        is_saved = await self._write(lambda tx: views.save(tx, session, compaction, event), session)
        self._database.counts["compactions"] += is_saved
        return is_saved

    async def save_prepared(self, session: int, prepared: Compaction) -> bool:
        """Keep a view and its digests beside the shown view; False if that one has changed."""
        return await self._write(lambda tx: views.save_prepared(tx, session, prepared), session)

    async def prepared_view(self, session: int) -> View | None:
        """The view that was prepared beside the shown one; None where that has changed since."""
        return await self._read(lambda tx: views.prepared_view(tx, session))

    def compacting(self, session: int, patience: float) -> AbstractAsyncContextManager[bool]:
        """Claims the session inside the block; False if another process still compacts it."""
        return hold_claim(self._database, self.owner, session, patience)

    async def is_compacting(self, session: int) -> bool:
        """Whether somebody compacts that session now."""
        return await self._read(lambda tx: is_claimed(tx, session))

    async def view(self, session: int, version: int) -> View:
        """A view of that session as it once was."""
        return await self._read(lambda tx: views.view(tx, session, version))

    async def not_shown(self, session: int, seqs: Sequence[int]) -> tuple[int, ...]:
        """The messages of these that the newest view no longer shows; none without a compaction."""
        return await self._read(lambda tx: load.not_shown(tx, session, seqs))

    async def shown_whole(self, session: int, seqs: Sequence[int]) -> tuple[int, ...]:
        """The messages of these that the newest view shows whole; none without a compaction."""
        return await self._read(lambda tx: load.shown_whole(tx, session, seqs))

    async def digests(self, session: int) -> tuple[Digest, ...]:
        """All digests of that session, oldest first."""
        return await self._read(lambda tx: views.digests(tx, session))

    async def receipts(self, session: int) -> tuple[tuple[Receipt, int], ...]:
        """All receipts, oldest first, each with the version of the view it was made from."""
        return await self._read(lambda tx: views.receipts(tx, session))

    async def originals(
        self, scope: Scope, seqs: Sequence[int] = (), after: int = 0, limit: int = 1000
    ) -> tuple[Original, ...]:
        """Messages of one session by number, or those after a number."""
        return await self._read(lambda tx: log.originals(tx, scope, seqs, after, limit))

    async def count_answers(self, session: int) -> int:
        """How often the model has answered in that session."""
        return await self._read(lambda tx: log.count_answers(tx, session))

    async def messages_of_calls(
        self, scope: Scope, calls: Sequence[str]
    ) -> tuple[tuple[int, ...], ...]:
        """The messages of one session with each tool call and its result, by the call's id."""
        return await self._read(lambda tx: log.messages_of_calls(tx, scope, calls))

    async def find(self, scope: Scope, query: SearchQuery) -> Matches:
        """The places of each term of a query."""
        return await self._read(lambda tx: search.find(tx, scope, query))

    async def read(
        self, scope: Scope, query: SearchQuery, wanted: Sequence[Worth]
    ) -> tuple[Hit, ...]:
        """The texts of what is worth reading, in that order."""
        return await self._read(lambda tx: search.read(tx, scope, query, wanted))

    async def list_passages(self, scope: Scope, query: SearchQuery, limit: int) -> tuple[Hit, ...]:
        """The passages that a query means by its qualifiers alone, in order."""
        return await self._read(lambda tx: search.list_passages(tx, scope, query, limit))

    async def search_many(
        self, scope: Scope, queries: Sequence[SearchQuery], limit: int
    ) -> tuple[tuple[int, ...], ...]:
        """The numbers of the messages that match each query best, in one round trip."""
        return await self._read(lambda tx: search.search_many(tx, scope, queries, limit))

    async def pins(self, scope: Scope, now: datetime, released: bool = False) -> tuple[Pin, ...]:
        """The pins in force in the scope: its own, its project's and the global ones."""
        return await self._read(lambda tx: pins.pins(tx, scope, now, released))

    async def pin_facts(
        self, scope: Scope, words: Sequence[str], limit: int, events: Sequence[str]
    ) -> PinFacts:
        """What decides about a pin, read at one moment."""
        return await self._read(lambda tx: requests.pin_facts(tx, scope, words, limit, events))

    async def change_pins(
        self, session: int, decide: Callable[[tuple[Pin, ...]], PinChange], now: datetime
    ) -> Pin | None:
        """Change the pins in force in a session as `decide` says when it is shown them."""
        return await self._write(lambda tx: pins.change_pins(tx, session, decide, now), turn=True)

    async def release_pin(self, scope: Scope, number: int, now: datetime) -> None:
        """Take a pin out of force; its text stays findable."""
        await self._write(lambda tx: pins.release_pin(tx, scope, number, now))

    async def set_checks(self, scope: Scope, number: int, checks: str) -> None:
        """Set the checks beside a pin in force; they bite on machines that bring the pin."""
        await self._write(lambda tx: pins.set_checks(tx, scope, number, checks))

    async def held(self) -> tuple[HeldNote, ...]:
        """The calls that checks held: none, since no hook reads this store."""
        return ()

    async def renew_facts(self, numbers: Sequence[int], now: datetime, expires: datetime) -> None:
        """Note that a session used these project facts, which are to last until a moment."""
        await self._write(lambda tx: pins.renew_facts(tx, numbers, now, expires))

    async def unannounced_pins(
        self, project: str, session: int | None, now: datetime
    ) -> tuple[Pin, ...]:
        """The pins for the project or for everywhere that no other session was told of yet."""
        return await self._read(
            lambda tx: pins.unannounced_pins(tx, without_surrogates(project), session, now)
        )

    async def mark_announced(self, project: str, numbers: Sequence[int]) -> None:
        """Note that the project's sessions were told of these pins."""
        # Where nothing can be written they are told again, which is better than not at all.
        with suppress(StoreReadOnly):
            await self._write(
                lambda tx: pins.mark_announced(tx, without_surrogates(project), numbers)
            )

    async def add_event(self, session: int, event: Event) -> None:
        """Note that something happened."""
        await self._write(lambda tx: sessions.add_event(tx, session, event))

    async def events(self, session: int, name: str | None = None) -> tuple[Event, ...]:
        """The events of that session, oldest first; with a name only those of it."""
        return await self._read(lambda tx: sessions.events(tx, session, name))

    async def add_calls(self, session: int, calls: Sequence[ModelCall], now: datetime) -> None:
        """Note what was asked of models on behalf of a session."""
        await self._write(lambda tx: model_calls.add_calls(tx, session, calls, now))

    async def spent(self, session: int | None, since: datetime | None = None) -> Spent:
        """The sum of a session's model calls since a moment; None: of all sessions, ever."""
        return await self._read(lambda tx: model_calls.spent(tx, session, since))

    async def thinking(self, session: int) -> dict[str, str]:
        """The beginning that each thinking block of a session was made behind."""
        return await self._read(lambda tx: thinking.thinking(tx, session))

    async def keep_thinking(self, session: int, changes: Mapping[str, str | None]) -> None:
        """Keep the beginnings of thinking blocks; None: nothing is to be known of one."""
        await self._write(lambda tx: thinking.keep_thinking(tx, session, changes), session)

    async def twins(self, scope: Scope, seq: int, within: Scope) -> Twins:
        """The messages within a scope that hold all that one message of a session says."""
        return await self._read(lambda tx: twins.twins(tx, scope, seq, within))

    async def forget(self, scope: Scope, seqs: Sequence[int], now: datetime) -> Forgotten:
        """Remove messages, or without any a session or a project; no query finds them again."""

        def work(tx: PgTx) -> Forgotten:
            tx.lock(scope.session)
            forgotten = forget.forget(tx, scope, seqs, now)
            drop_claims(tx)
            return forgotten

        return await self._write(work)

    async def backup(self, target: Path) -> None:
        """Refuse: a database is backed up by its own tools."""
        raise InputError(
            f"{self._database.place} is backed up by its own tools, not into a file of ours; "
            "run: pg_dump"
        )

    async def inventory(self) -> Inventory:
        """All sessions there are, in the order in which they were made."""
        return await self._read(row_tables.inventory)

    async def read_rows(self, session: int) -> SessionRows:
        """All rows of a session, from one moment."""
        return await self._read(lambda tx: row_tables.read_rows(tx, session))

    async def write_rows(self, given: SessionRows, /) -> int:
        """Keep a session whole or not at all, where there is none of that name; its id."""
        return await self._write(lambda tx: row_tables.write_rows(tx, given), turn=True)

    async def read_loose_rows(self) -> LooseRows:
        """The rows that are not of one session alone."""
        return await self._read(row_tables.read_loose_rows)

    async def write_loose_rows(self, given: LooseRows, /) -> None:
        """Keep these, all or none; there is no pin of these numbers."""
        await self._write(lambda tx: row_tables.write_loose_rows(tx, given), turn=True)

    async def repair(self) -> None:
        """Build the search terms anew from their texts."""
        await self._write(postings.rebuild)

    async def health(self) -> Health:
        """Look the store over without changing it."""
        return await self._read(lambda tx: health(tx, self._database.place))

    async def close(self) -> None:
        """Let go of the connections; a second call does nothing."""
        if not self._is_shared:
            with anyio.CancelScope(shield=True):
                await self._database.close()

    async def _read(self, work: Callable[[PgTx], T]) -> T:
        return await self._database.read(self.owner, work)

    async def _write(
        self, work: Callable[[PgTx], T], session: int | None = None, *, turn: bool = False
    ) -> T:
        """The result of a function in one transaction; `session`: nobody else writes to it
        meanwhile; `turn`: nobody else makes sessions or pins."""

        def alone(tx: PgTx) -> T:
            if session is not None:
                tx.lock(session)
            if turn:
                tx.take_turn()
            return work(tx)

        return await self._database.write(self.owner, alone)
