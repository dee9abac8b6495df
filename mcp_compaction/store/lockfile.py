"""The lock file beside the store that every write, checkpoint and close is done under.

SQLite's own busy handler is unfair, and a commit during another connection's checkpoint is what
its WAL-reset bug needs; one advisory lock around both makes waits short and that race impossible.
"""

from __future__ import annotations

import errno
import os
import sys
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

from mcp_compaction.errors import StoreBusy, StoreError, StoreReadOnly

if sys.platform == "win32":
    import msvcrt

    def _lock(fd: int) -> None:
        msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)

    def _unlock(fd: int) -> None:
        os.lseek(fd, 0, os.SEEK_SET)
        msvcrt.locking(fd, msvcrt.LK_UNLCK, 1)
else:
    import fcntl

    def _lock(fd: int) -> None:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _unlock(fd: int) -> None:
        fcntl.flock(fd, fcntl.LOCK_UN)


_FIRST_PAUSE = 0.004
_SHORTEST_PAUSE = 0.001
_LONGEST_MARK = 1_000  # bytes


def pauses() -> Iterator[float]:
    """The pauses between tries: ever shorter, so that whoever waits longest tries most."""
    from random import uniform  # only who has to wait needs it

    pause = _FIRST_PAUSE
    while True:
        # Uneven, so that waiting processes do not keep meeting each other.
        yield pause * uniform(0.5, 1.5)
        pause = max(pause * 0.85, _SHORTEST_PAUSE)


def lock_path(database: Path) -> Path:
    """The lock file of a store."""
    return database.with_name(database.name + ".lock")


class LockFile:
    """An exclusive lock between processes, and between stores of one process."""

    def __init__(self, database: Path) -> None:
        self.path = lock_path(database)
        self._fd: int | None = None
        self._held = False
        self._closed = False

    @property
    def held(self) -> bool:
        """Whether this object holds the lock now."""
        return self._held

    def try_acquire(self) -> bool:
        """Take the lock if it is free; never waits."""
        fd = self._open()
        try:
            _lock(fd)
        except (BlockingIOError, PermissionError):
            return False
        self._held = True
        if self._is_current(fd):
            return True
        # Someone removed the file: a lock on the old one shuts nobody out.
        self._let_go()
        return False

    def acquire(self, deadline: float) -> None:
        """Take the lock, polling for at most `deadline` seconds; for callers without a loop."""
        end = time.monotonic() + deadline
        for pause in pauses():
            if self.try_acquire():
                return
            if time.monotonic() >= end:
                raise busy_error(self.path, deadline)
            time.sleep(pause)

    def release(self) -> None:
        """Give the lock back; harmless when it is not held."""
        if self._fd is not None and self._held:
            _unlock(self._fd)
        self._held = False

    def mark(self, text: bytes) -> None:
        """Leave a text in the file for later starts; the caller holds the lock."""
        fd = self._open()
        os.lseek(fd, 0, os.SEEK_SET)
        os.write(fd, text)
        os.ftruncate(fd, len(text))

    def read(self) -> bytes:
        """The text in the file; on Windows only who holds the lock can read it."""
        fd = self._open()
        os.lseek(fd, 0, os.SEEK_SET)
        return os.read(fd, _LONGEST_MARK)

    def touch(self) -> None:
        """Note on the file that its owner is at work; the caller holds the lock."""
        os.utime(self._open() if os.utime in os.supports_fd else self.path)

    def is_current(self) -> bool:
        """Whether the file that this object has open is the one that others find."""
        return self._fd is not None and self._is_current(self._fd)

    def look_again(self) -> None:
        """Let go of the file, so that the next try is for the one that others find then."""
        self._let_go()

    def close(self) -> None:
        """Give the lock back for good."""
        self._closed = True
        self._let_go()

    @contextmanager
    def hold(self, deadline: float) -> Generator[None]:
        """Hold the lock for a block; for callers without a loop."""
        self.acquire(deadline)
        try:
            yield
        finally:
            self.release()

    def _let_go(self) -> None:
        self.release()
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _open(self) -> int:
        if self._closed:
            raise StoreError("The store is closed; open it again.")
        if self._fd is None:
            try:
                self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | _OWN_FILE, 0o600)
            except OSError as error:
                if error.errno in (errno.EISDIR, errno.ENXIO, errno.ELOOP):
                    raise StoreError(
                        f"{self.path} should be a file, and is not ({error.strerror}); nothing was "
                        "changed. Move it away and try again: a new one is made."
                    ) from error
                if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
                    raise
                raise StoreReadOnly(
                    f"{self.path} cannot be written; correct the folder's permissions "
                    "or set MCP_COMPACTION_HOME to a folder of yours."
                ) from error
        return self._fd

    def _is_current(self, fd: int) -> bool:
        try:
            return os.path.samestat(os.fstat(fd), self.path.lstat())
        except FileNotFoundError:
            return False


_CLOEXEC = getattr(os, "O_CLOEXEC", 0)
_OWN_FILE = _CLOEXEC | getattr(os, "O_NOFOLLOW", 0)  # what a link leads to is never written


class Users:
    """A lock on a store's log that all its users share: the kernel frees that of one who died.

    SQLite has no locks of its own on that file. Where locks cannot be shared, as on Windows, every
    user counts as the only one.
    """

    def __init__(self) -> None:
        self._fd: int | None = None

    def join(self, log: Path) -> None:
        """Be one of the users from now on."""
        self.leave()
        if sys.platform != "win32":
            self._fd = os.open(log, os.O_RDONLY | _CLOEXEC)
            fcntl.flock(self._fd, fcntl.LOCK_SH)

    def is_only_one(self) -> bool:
        """Whether nobody else uses the store; the caller holds the lock file, so none can come."""
        if sys.platform == "win32" or self._fd is None:
            return True
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        finally:
            fcntl.flock(self._fd, fcntl.LOCK_SH)
        return True

    def leave(self) -> None:
        """Be none of the users any more."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def busy_error(lock: Path, deadline: float) -> StoreBusy:
    """The error for a lock that did not come free in time."""
    return StoreBusy(
        f"Another process has held {lock} for over {deadline:g} s; "
        "try again, or end the mcp-compaction process that hangs."
    )
