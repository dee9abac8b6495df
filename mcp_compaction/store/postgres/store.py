"""The store of a team as the rest of the program sees it: the numbers of pins, which it counts in a
row of the owner's, the user messages that may hold a text, one compaction a session at a time,
and how one owner's part stands.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from datetime import datetime
from pathlib import Path
from time import monotonic
from typing import TypeVar, TypeVarTuple
from uuid import uuid4

import anyio

from mcp_compaction.checks.file import HeldNote
from mcp_compaction.errors import InputError, StoreError, StoreReadOnly
from mcp_compaction.model import Compaction, Event, SessionInfo, Traits
from mcp_compaction.ports import Forgotten, Health, Scope, SessionKey
from mcp_compaction.store import align, forget, passages, row_tables, search, sessions
from mcp_compaction.store.align import chain_hash
from mcp_compaction.store.claim import SIGN_EVERY, SILENCE
from mcp_compaction.store.health import masks_in
from mcp_compaction.store.postgres import known
from mcp_compaction.store.postgres import passages as postings
from mcp_compaction.store.postgres import search as found
from mcp_compaction.store.postgres.database import (
    PgRow,
    PgTx,
    PoolLimits,
    TeamDatabase,
    open_database,
)
from mcp_compaction.store.postgres.passages import KEYS_FROM
from mcp_compaction.store.postgres.schema import SCHEMA_VERSION
from mcp_compaction.store.postgres.search import Phrase, Place, find_phrase, terms_of
from mcp_compaction.store.sql_store import SqlStore

_PAUSE = 0.05
_FAREWELL = 5.0  # seconds that giving a claim back may take; it ends by itself

_READ_AT_ONCE = 5_000
_SCANNED = 1_000  # newest passages with a piece of the text that are looked at
T = TypeVar("T")
Ts = TypeVarTuple("Ts")


@asynccontextmanager
async def hold_claim(
    database: TeamDatabase, owner: str, session: int, patience: float
) -> AsyncGenerator[bool]:
    """Claims the session inside the block; False if another process still compacts it."""
    holder = uuid4().hex
    is_ours = await _take(database, owner, session, holder, patience)
    if not is_ours:
        yield False
        return
    signs = asyncio.create_task(_give_signs(database, owner, session, holder))
    try:
        yield True
    finally:
        with anyio.CancelScope(shield=True), anyio.move_on_after(_FAREWELL), suppress(StoreError):
            signs.cancel()
            with suppress(asyncio.CancelledError):
                await signs
            await database.write(owner, lambda tx: _give_back(tx, session, holder))


def is_claimed(tx: PgTx, session: int) -> bool:
    """Whether somebody compacts that session now."""
    row = tx.one(
        "SELECT 1 FROM claim WHERE owner = %(owner)s AND session = %(session)s"
        " AND expires > clock_timestamp()",
        session=session,
    )
    return row is not None


async def _take(
    database: TeamDatabase, owner: str, session: int, holder: str, patience: float
) -> bool:
    end = monotonic() + patience
    try:
        while not await database.write(owner, lambda tx: _try_to_take(tx, session, holder)):
            if monotonic() >= end:
                return False
            await anyio.sleep(_PAUSE)
    except StoreReadOnly:
        pass  # nothing can be saved there either, and saving says why
    return True


def _try_to_take(tx: PgTx, session: int, holder: str) -> bool:
    """Take a claim that nobody holds, or whose holder has been silent for too long."""
    row = tx.one(
        "INSERT INTO claim (owner, session, holder, beat, expires) VALUES (%(owner)s, %(session)s,"
        " %(holder)s, clock_timestamp(), clock_timestamp() + make_interval(secs => %(silence)s))"
        " ON CONFLICT (owner, session) DO UPDATE SET holder = excluded.holder,"
        " beat = excluded.beat, expires = excluded.expires"
        " WHERE claim.expires <= clock_timestamp() RETURNING holder",
        session=session,
        holder=holder,
        silence=SILENCE,
    )
    return row is not None


async def _give_signs(database: TeamDatabase, owner: str, session: int, holder: str) -> None:
    while True:
        await anyio.sleep(SIGN_EVERY)
        with suppress(StoreError):  # without them the claim ends, which harms nobody
            await database.write(owner, lambda tx: _give_sign(tx, session, holder))


def _give_sign(tx: PgTx, session: int, holder: str) -> None:
    tx.run(
        "UPDATE claim SET beat = clock_timestamp(),"
        " expires = clock_timestamp() + make_interval(secs => %(silence)s)"
        " WHERE owner = %(owner)s AND session = %(session)s AND holder = %(holder)s",
        session=session,
        holder=holder,
        silence=SILENCE,
    )


def drop_claims(tx: PgTx) -> None:
    """Remove the claims of sessions that are gone."""
    tx.run(
        "DELETE FROM claim WHERE claim.owner = %(owner)s AND NOT EXISTS (SELECT 1 FROM session"
        " WHERE session.owner = %(owner)s AND session.id = claim.session)"
    )


def _give_back(tx: PgTx, session: int, holder: str) -> None:
    tx.run(
        "DELETE FROM claim WHERE owner = %(owner)s AND session = %(session)s"
        " AND holder = %(holder)s",
        session=session,
        holder=holder,
    )


def health(tx: PgTx, place: str) -> Health:
    """The state of one owner's rows; nothing is changed."""
    sessions = tx.all(
        "SELECT id, last_seq, last_chain FROM session WHERE owner = %(owner)s ORDER BY id"
    )
    problems: list[str] = []
    messages = size = 0
    masked = Counter[str]()
    for session in sessions:
        chain, seq = "", 0
        is_broken = False
        while rows := _read_rows(tx, session["id"], seq):
            for row in rows:
                seq, chain = seq + 1, chain_hash(chain, row["content"])
                is_broken |= (row["seq"], row["chain"]) != (seq, chain)
                size += len(row["raw"])
                masked.update(masks_in(row["raw"].decode()))
            messages += len(rows)
            seq = rows[-1]["seq"]
        if is_broken or (seq, chain) != (session["last_seq"], session["last_chain"]):
            problems.append(
                f"The chain of session {session['id']} is broken; restore the database from its "
                "own backup."
            )
    problems += _find_index_problems(tx)
    version = tx.one("SELECT current_setting('server_version') AS version")
    return Health(
        place=place,
        engine=f"PostgreSQL {(version or {'version': '?'})['version']}",
        schema_version=SCHEMA_VERSION,
        size_bytes=size,
        sessions=len(sessions),
        messages=messages,
        problems=tuple(problems),
        masked=masked,
    )


def _read_rows(tx: PgTx, session: int, after: int) -> list[PgRow]:
    return tx.all(
        "SELECT seq, content, chain, raw FROM message WHERE owner = %(owner)s"
        " AND session = %(session)s AND seq > %(after)s ORDER BY seq LIMIT %(limit)s",
        session=session,
        after=after,
        limit=_READ_AT_ONCE,
    )


def _find_index_problems(tx: PgTx) -> Iterator[str]:
    lost = tx.one(
        "SELECT 1 FROM posting WHERE posting.owner = %(owner)s AND NOT EXISTS (SELECT 1"
        " FROM passage WHERE passage.owner = %(owner)s AND passage.id = posting.passage"
        " AND passage.session = posting.session) LIMIT 1"
    )
    if lost is None:
        return iter(())
    return iter(
        ("The search terms are out of step with their texts; run: mcp-compaction doctor --fix",)
    )


def find_requests(tx: PgTx, session: int, pieces: Sequence[str], limit: int) -> Iterator[int]:
    """The user messages with all pieces of a text together, then those with one of them."""
    whole, *parts = terms_of([" ".join(pieces), *pieces])
    yield from _read_users(tx, _find(tx, session, whole), limit, is_long=False)
    places = [place for part in parts for place in _find(tx, session, part)]
    newest = sorted(set(places), key=lambda place: -place.passage)[:_SCANNED]
    yield from _read_users(tx, newest, limit, is_long=True)


def _find(tx: PgTx, session: int, terms: tuple[str, ...]) -> list[Place]:
    if not terms:
        return []
    return find_phrase(tx, Phrase(terms), [session], upto=KEYS_FROM)


def _read_users(tx: PgTx, places: list[Place], limit: int, *, is_long: bool) -> list[int]:
    """The user messages of some passages; `is_long`: only those of several passages, since only
    they can hold a text across a cut."""
    rows = tx.all(
        "SELECT DISTINCT message.via, message.seq FROM passage JOIN message"
        " ON message.owner = %(owner)s AND message.session = passage.session"
        " AND message.seq = passage.number WHERE passage.owner = %(owner)s"
        " AND passage.id = ANY(%(ids)s) AND passage.kind = 'm'"
        " AND passage.role IN ('user', 'system') AND message.role = 'user'"
        " AND (NOT %(is_long)s OR passage.size > 1)"
        " ORDER BY message.via, message.seq LIMIT %(limit)s",
        ids=[place.passage for place in places],
        is_long=is_long,
        limit=limit,
    )
    return [row["seq"] for row in rows]


def last_pin(tx: PgTx) -> int:
    """The newest number that was ever given to a pin."""
    row = tx.one("SELECT pins FROM counter WHERE owner = %(owner)s")
    return 0 if row is None else row["pins"]


def expect_pins(tx: PgTx, upto: int) -> None:
    """Have pins kept under their numbers: one that was given once is never given again."""
    tx.run(
        "INSERT INTO counter (owner, pins) VALUES (%(owner)s, %(upto)s) ON CONFLICT (owner)"
        " DO UPDATE SET pins = greatest(counter.pins, excluded.pins)",
        upto=upto,
    )


# What PostgreSQL does in its own way; all other statements are SQLite's.
search.find.register(PgTx, found.find)
search.read.register(PgTx, found.read)
search.list_passages.register(PgTx, found.list_passages)
search.search_many.register(PgTx, found.search_many)
align.read_known.register(PgTx, known.read_known)
search.find_requests.register(PgTx, find_requests)
passages.insert.register(PgTx, postings.insert)
passages.delete.register(PgTx, postings.delete)
passages.delete_session.register(PgTx, postings.delete_session)
row_tables.last_pin.register(PgTx, last_pin)
row_tables.expect_pins.register(PgTx, expect_pins)


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
