"""The claim to compact a session: a row with its holder, its last sign of life and its end.

A lock of a database session would not do: behind PgBouncer in transaction mode nobody keeps one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from time import monotonic
from uuid import uuid4

import anyio

from mcp_compaction.errors import StoreError, StoreReadOnly
from mcp_compaction.store.claim import SIGN_EVERY, SILENCE
from mcp_compaction.store.postgres.database import PgTx, TeamDatabase

_PAUSE = 0.05
_FAREWELL = 5.0  # seconds that giving a claim back may take; it ends by itself


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
