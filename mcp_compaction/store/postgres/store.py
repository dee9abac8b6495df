"""The store of a team as the rest of the program sees it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from pathlib import Path
from typing import TypeVar, TypeVarTuple

import anyio

from mcp_compaction.checks.file import HeldNote
from mcp_compaction.errors import InputError
from mcp_compaction.model import (
    Compaction,
    Event,
    SessionInfo,
    Traits,
)
from mcp_compaction.ports import (
    Forgotten,
    Health,
    Scope,
    SessionKey,
)
from mcp_compaction.store import (
    align,
    forget,
    passages,
    requests,
    row_tables,
    search,
    sessions,
)
from mcp_compaction.store.postgres import known
from mcp_compaction.store.postgres import passages as postings
from mcp_compaction.store.postgres import requests as found_requests
from mcp_compaction.store.postgres import rows as numbers
from mcp_compaction.store.postgres import search as found
from mcp_compaction.store.postgres.claim import drop_claims, hold_claim, is_claimed
from mcp_compaction.store.postgres.database import PgTx, PoolLimits, TeamDatabase, open_database
from mcp_compaction.store.postgres.health import health
from mcp_compaction.store.sql_store import SqlStore

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

# What PostgreSQL does in its own way; all other statements are SQLite's.
search.find.register(PgTx, found.find)
search.read.register(PgTx, found.read)
search.list_passages.register(PgTx, found.list_passages)
search.search_many.register(PgTx, found.search_many)
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


class PostgresStore(SqlStore):
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

    async def save(self, session: int, compaction: Compaction, event: Event | None = None) -> bool:
        """Save a compaction, and count it."""
        is_saved = await super().save(session, compaction, event)
        self._database.counts["compactions"] += is_saved
        return is_saved

    def compacting(self, session: int, patience: float) -> AbstractAsyncContextManager[bool]:
        """Claims the session inside the block; False if another process still compacts it."""
        return hold_claim(self._database, self.owner, session, patience)

    async def is_compacting(self, session: int) -> bool:
        """Whether somebody compacts that session now."""
        return await self._read(lambda tx: is_claimed(tx, session))

    async def held(self) -> tuple[HeldNote, ...]:
        """The calls that checks held: none, since no hook reads this store."""
        return ()

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

    async def _read(self, work: Callable[[PgTx, *Ts], T], *args: *Ts) -> T:
        return await self._database.read(self.owner, lambda tx: work(tx, *args))

    async def _write(self, work: Callable[[PgTx, *Ts], T], *args: *Ts) -> T:
        return await self._database.write(self.owner, lambda tx: work(tx, *args))

    async def _write_to(self, work: Callable[[PgTx, int, *Ts], T], session: int, *args: *Ts) -> T:
        def alone(tx: PgTx) -> T:
            tx.lock(session)
            return work(tx, session, *args)

        return await self._write(alone)

    async def _write_pins(self, work: Callable[[PgTx, *Ts], T], *args: *Ts) -> T:
        def alone(tx: PgTx) -> T:
            tx.take_turn()
            return work(tx, *args)

        return await self._write(alone)
