"""The methods of a store that are the same on every engine: each reads or writes by one function.

What each does is said in `ports`. The modules that need formats or the core are imported by the
methods: most commands only look something up.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar, TypeVarTuple

from mcp_compaction.core.text.paths import without_surrogates
from mcp_compaction.errors import StoreReadOnly
from mcp_compaction.model import ModelCall, Spent
from mcp_compaction.store import sessions, views
from mcp_compaction.store.sessions import session_row
from mcp_compaction.store.sql import Tx, encodable, stamp

if TYPE_CHECKING:
    from mcp_compaction.model import (
        Compaction,
        Digest,
        Event,
        Hit,
        Logged,
        Matches,
        Message,
        Pin,
        PinChange,
        Receipt,
        SearchQuery,
        Session,
        SessionInfo,
        Traits,
        Twins,
        View,
        Worth,
    )
    from mcp_compaction.ports import (
        Batch,
        KnownTranscript,
        Original,
        Past,
        PinFacts,
        Recorded,
        Scope,
        SessionKey,
        WindowCount,
    )
    from mcp_compaction.store.row_tables import Inventory, LooseRows, SessionRows

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


def add_calls(tx: Tx, session: int, calls: Sequence[ModelCall], now: datetime) -> None:
    """Note calls, those that gave nothing too: they were paid for."""
    session_row(tx, session)
    tx.executemany(
        "INSERT INTO model_call (session, at, model, seconds, input_tokens, output_tokens,"
        " cached_tokens, cost, failed) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (
                *(session, stamp(now), encodable(call.model), call.seconds),
                *(call.input_tokens, call.output_tokens, call.cached_tokens),
                *(call.cost, encodable(call.failed)),
            )
            for call in calls
        ],
    )


def spent(tx: Tx, session: int | None, since: datetime | None) -> Spent:
    """The sum over the calls at or after a moment, of one session or of all."""
    row = tx.execute(
        "SELECT count(*), coalesce(sum(input_tokens), 0), coalesce(sum(output_tokens), 0),"
        " coalesce(sum(cached_tokens), 0), coalesce(sum(cost), 0.0), coalesce(sum(seconds), 0.0),"
        " count(nullif(failed, '')) FROM model_call WHERE session = coalesce(?, session)"
        " AND at >= ?",
        (session, "" if since is None else stamp(since)),
    ).fetchone()
    return Spent(
        calls=row[0],
        input_tokens=int(row[1]),
        output_tokens=int(row[2]),
        cached_tokens=int(row[3]),
        cost=row[4],
        seconds=row[5],
        failed=row[6],
    )


class SqlStore(ABC):
    """Sessions in tables, whichever engine keeps them."""

    @abstractmethod
    async def _read(self, work: Callable[[Tx, *Ts], T], *args: *Ts) -> T:
        """The result of a function that reads all from one moment."""

    @abstractmethod
    async def _write(self, work: Callable[[Tx, *Ts], T], *args: *Ts) -> T:
        """The result of a function in one transaction."""

    @abstractmethod
    async def _write_to(self, work: Callable[[Tx, int, *Ts], T], session: int, *args: *Ts) -> T:
        """The result of a function in one transaction, in which nobody else writes to a session."""

    @abstractmethod
    async def _write_pins(self, work: Callable[[Tx, *Ts], T], *args: *Ts) -> T:
        """The result of a function in one transaction, in which nobody else makes pins."""

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
        return await self._write_to(sessions.set_traits, session, traits)

    async def append(self, session: int, batch: Batch, now: datetime) -> Recorded:
        from mcp_compaction.store import log

        return await self._write_to(log.append, session, batch, now)

    async def find_transcript(self, address: str) -> KnownTranscript | None:
        return await self._read(sessions.find_transcript, address)

    async def history(self, session: int) -> tuple[Logged, ...]:
        from mcp_compaction.store import log

        return await self._read(log.history, session)

    async def hearsay(self, session: int) -> tuple[Message, ...]:
        from mcp_compaction.store import log

        return await self._read(log.hearsay, session)

    async def vouch(self, session: int, seqs: Sequence[int]) -> None:
        from mcp_compaction.store import log

        await self._write_to(log.vouch, session, seqs)

    async def save_view(
        self, session: int, view: View, base_version: int, event: Event | None = None
    ) -> bool:
        return await self._write_to(views.save_view, session, view, base_version, event)

    async def calibrate(self, session: int, counted: int, reported: int) -> None:
        await self._write_to(sessions.calibrate, session, counted, reported)

    async def load(self, session: int, now: datetime, view: View | None = None) -> Session:
        from mcp_compaction.store.load import load

        return await self._read(load, session, now, view)

    async def load_with_past(
        self, session: int, now: datetime, view: View | None = None
    ) -> tuple[Session, Past]:
        from mcp_compaction.store.load import load_with_past

        return await self._read(load_with_past, session, now, view)

    async def load_change(
        self, session: int, now: datetime, wants_earlier: Callable[[Session], bool]
    ) -> tuple[Session, Session | None]:
        from mcp_compaction.store.load import load_change

        return await self._read(load_change, session, now, wants_earlier)

    async def count_window(
        self, session: int, now: datetime, known: WindowCount | None = None
    ) -> WindowCount:
        from mcp_compaction.store.load import count_window

        return await self._read(count_window, session, now, known)

    async def save(self, session: int, compaction: Compaction, event: Event | None = None) -> bool:
        return await self._write_to(views.save, session, compaction, event)

    async def save_prepared(self, session: int, prepared: Compaction) -> bool:
        return await self._write_to(views.save_prepared, session, prepared)

    async def prepared_view(self, session: int) -> View | None:
        return await self._read(views.prepared_view, session)

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

        return await self._read(lambda tx: search.find(tx, scope, query))

    async def read(
        self, scope: Scope, query: SearchQuery, wanted: Sequence[Worth]
    ) -> tuple[Hit, ...]:
        from mcp_compaction.store import search

        return await self._read(lambda tx: search.read(tx, scope, query, wanted))

    async def list_passages(self, scope: Scope, query: SearchQuery, limit: int) -> tuple[Hit, ...]:
        from mcp_compaction.store import search

        return await self._read(lambda tx: search.list_passages(tx, scope, query, limit))

    async def search_many(
        self, scope: Scope, queries: Sequence[SearchQuery], limit: int
    ) -> tuple[tuple[int, ...], ...]:
        from mcp_compaction.store import search

        return await self._read(lambda tx: search.search_many(tx, scope, queries, limit))

    async def pins(self, scope: Scope, now: datetime, released: bool = False) -> tuple[Pin, ...]:
        return await self._read(views.pins, scope, now, released)

    async def pin_facts(
        self, scope: Scope, words: Sequence[str], limit: int, events: Sequence[str]
    ) -> PinFacts:
        """The facts that decide about a pin, read at one moment."""
        from mcp_compaction.store import search

        return await self._read(search.pin_facts, scope, words, limit, events)

    async def change_pins(
        self, session: int, decide: Callable[[tuple[Pin, ...]], PinChange], now: datetime
    ) -> Pin | None:
        return await self._write_pins(views.change_pins, session, decide, now)

    async def release_pin(self, scope: Scope, number: int, now: datetime) -> None:
        await self._write_pins(views.release_pin, scope, number, now)

    async def set_checks(self, scope: Scope, number: int, checks: str) -> None:
        await self._write_pins(views.set_checks, scope, number, checks)

    async def renew_facts(self, numbers: Sequence[int], now: datetime, expires: datetime) -> None:
        await self._write(views.renew_facts, numbers, now, expires)

    async def unannounced_pins(self, project: str, now: datetime) -> tuple[Pin, ...]:
        return await self._read(views.unannounced_pins, without_surrogates(project), None, now)

    async def mark_announced(self, project: str, numbers: Sequence[int]) -> None:
        # Where nothing can be written they are told again, which is better than not at all.
        with suppress(StoreReadOnly):
            await self._write(views.mark_announced, without_surrogates(project), numbers)

    async def add_event(self, session: int, event: Event) -> None:
        await self._write(sessions.add_event, session, event)

    async def events(self, session: int, name: str | None = None) -> tuple[Event, ...]:
        return await self._read(sessions.events, session, name)

    async def add_calls(self, session: int, calls: Sequence[ModelCall], now: datetime) -> None:
        await self._write(add_calls, session, calls, now)

    async def spent(self, session: int | None, since: datetime | None = None) -> Spent:
        return await self._read(spent, session, since)

    async def thinking(self, session: int) -> dict[str, str]:
        return await self._read(sessions.thinking_of, session)

    async def keep_thinking(self, session: int, changes: Mapping[str, str | None]) -> None:
        await self._write_to(sessions.keep_thinking, session, changes)

    async def twins(self, scope: Scope, seq: int, within: Scope) -> Twins:
        from mcp_compaction.store import forget

        return await self._read(forget.twins, scope, seq, within)

    async def inventory(self) -> Inventory:
        """All sessions there are, in the order in which they were made."""
        from mcp_compaction.store import row_tables

        return await self._read(row_tables.inventory)

    async def read_rows(self, session: int) -> SessionRows:
        """All rows of a session, from one moment."""
        from mcp_compaction.store import row_tables

        return await self._read(row_tables.read_rows, session)

    async def write_rows(self, rows: SessionRows) -> int:
        """Keep a session whole or not at all, where there is none of that name; its id."""
        from mcp_compaction.store import row_tables

        return await self._write_pins(row_tables.write_rows, rows)

    async def read_loose_rows(self) -> LooseRows:
        """The rows that are not of one session alone."""
        from mcp_compaction.store import row_tables

        return await self._read(row_tables.read_loose_rows)

    async def write_loose_rows(self, rows: LooseRows) -> None:
        """Keep these, all or none; there is no pin of these numbers."""
        from mcp_compaction.store import row_tables

        await self._write_pins(row_tables.write_loose_rows, rows)
