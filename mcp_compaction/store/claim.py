"""The claim to compact a session: a file lock, which the kernel frees when its owner dies.

It is not the lock that writes are done under: messages go on being recorded meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio

from mcp_compaction.errors import StoreReadOnly
from mcp_compaction.store.lockfile import LockFile

_PAUSE = 0.05
_TRIES = 3  # who only looks whether it is held holds it for a moment


def claim_of(database: Path, session: int) -> LockFile:
    """The lock of a session's compactions."""
    return LockFile(database.with_name(f"{database.name}.compacting-{session}"))


def is_claimed(database: Path, session: int) -> bool:
    """Whether somebody compacts that session now."""
    claim = claim_of(database, session)
    if not claim.path.exists():
        return False
    try:
        return not _try_to_take(claim)
    except StoreReadOnly:
        return False
    finally:
        _give_back(claim)


@asynccontextmanager
async def hold_claim(database: Path, session: int, patience: float) -> AsyncGenerator[bool]:
    """Claims the session inside the block; False if another process still compacts it."""
    claim = claim_of(database, session)
    try:
        yield await _take(claim, patience)
    finally:
        _give_back(claim)


async def _take(claim: LockFile, patience: float) -> bool:
    end = time.monotonic() + patience
    try:
        while not _try_to_take(claim):
            if time.monotonic() >= end:
                return False
            await anyio.sleep(_PAUSE)
    except StoreReadOnly:
        pass  # nothing can be saved there either, and saving says why
    return True


def _try_to_take(claim: LockFile) -> bool:
    return any(claim.try_acquire() for _ in range(_TRIES))


def _give_back(claim: LockFile) -> None:
    if claim.held:
        with suppress(OSError):  # an open file cannot be removed everywhere
            claim.path.unlink()
    claim.close()
