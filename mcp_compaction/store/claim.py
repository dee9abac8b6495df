"""The claim to compact a session: a file lock, which the kernel frees when its owner dies.

It is not the lock that writes are done under: messages go on being recorded meanwhile. An owner
that is stopped does not die, so each gives signs of life, and is left its claim while it does.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from threading import Event, Thread

from mcp_compaction.errors import StoreReadOnly
from mcp_compaction.store.lockfile import LockFile

SIGN_EVERY = 2.0  # seconds
SILENCE = 20.0  # seconds without a sign of life, after which a claim is anybody's
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
        return not _try_to_take(claim) and not _is_silent(claim)
    except StoreReadOnly:
        return False
    finally:
        _give_back(claim)


@asynccontextmanager
async def hold_claim(database: Path, session: int, patience: float) -> AsyncGenerator[bool]:
    """Claims the session inside the block; False if another process still compacts it."""
    claim = claim_of(database, session)
    try:
        is_ours = await _take(claim, patience)
        with _signs_of_life(claim):
            yield is_ours
    finally:
        _give_back(claim)


async def _take(claim: LockFile, patience: float) -> bool:
    end = time.monotonic() + patience
    was_silent = False
    try:
        while not _try_to_take(claim):
            if time.monotonic() >= end:
                return False
            is_silent = _is_silent(claim)
            if is_silent and was_silent:  # twice, since who has just taken it gives a sign at once
                # An owner that goes on after all saves nothing: the view it began with has changed.
                _remove(claim)
            was_silent = is_silent
            claim.look_again()
            await asyncio.sleep(_PAUSE)
    except StoreReadOnly:
        pass  # nothing can be saved there either, and saving says why
    return True


@contextmanager
def _signs_of_life(claim: LockFile) -> Generator[None]:
    """Signs of life of a claim's owner inside the block, from a thread: its loop may be busy."""
    if not claim.held:
        yield
        return
    is_over = Event()

    def give_signs() -> None:
        with suppress(OSError):  # without them the claim ends, which harms nobody
            claim.touch()
            while not is_over.wait(SIGN_EVERY):
                claim.touch()

    thread = Thread(target=give_signs, name="claim", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def _is_silent(claim: LockFile) -> bool:
    try:
        return time.time() - claim.path.stat().st_mtime > SILENCE
    except OSError:
        return False


def _try_to_take(claim: LockFile) -> bool:
    return any(claim.try_acquire() for _ in range(_TRIES))


def _give_back(claim: LockFile) -> None:
    if claim.held and claim.is_current():
        _remove(claim)
    claim.close()


def _remove(claim: LockFile) -> None:
    with suppress(OSError):  # an open file cannot be removed everywhere
        claim.path.unlink()
