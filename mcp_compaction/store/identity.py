"""The identity of a store's files, by which a replacement is noticed.

SQLite keeps writing to a file that was removed or replaced under it, where nobody will ever read
it. Only `os.stat` looks here: closing a descriptor of the live file would drop SQLite's locks.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final, Literal, NamedTuple

from mcp_compaction.errors import StoreDamaged
from mcp_compaction.store.lockfile import lock_path

Change = Literal["removed", "replaced", "mixed", "log removed", "log replaced"]
RESTORE: Final = "mcp-compaction restore-backup FILE"
_File = tuple[int, int]  # device and inode


class Identity(NamedTuple):
    """The files of an open store: the database, its log and the memory its users share."""

    database: _File | None
    log: _File | None
    shared: _File | None


def identity_of(path: Path) -> Identity:
    """The files that lie in a store's place now."""
    real = os.path.realpath(path)
    return Identity(
        _read_file_identity(real),
        _read_file_identity(f"{real}-wal"),
        _read_file_identity(f"{real}-shm"),
    )


def change_since(opened: Identity, now: Identity) -> Change | None:
    """The change of a store's files since it was opened."""
    if now.database != opened.database:
        if now.database is None:
            return "removed"
        return "mixed" if opened.log is not None and now.log == opened.log else "replaced"
    if now.log == opened.log and now.shared == opened.shared:
        return None
    # Whoever opens the database makes the files that are missing.
    nobody_came = now.log in (None, opened.log) and now.shared in (None, opened.shared)
    return "log removed" if nobody_came else "log replaced"


def words_for(change: Change, path: Path) -> str:
    """The words for a change of a store's files."""
    return _WORDS[change].format(path=path)


def _read_file_identity(path: str) -> _File | None:
    try:
        found = os.stat(path)  # noqa: PTH116  # in every transaction: a Path is slower to make
    except OSError:
        return None
    return found.st_dev, found.st_ino


def log_path(path: Path) -> Path:
    """The write-ahead log of a store."""
    # SQLite follows a link and keeps its log beside the real file.
    return Path(f"{os.path.realpath(path)}-wal")


def size_of(path: Path) -> int | None:
    """The size of a file, if there is one."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return None


# What the lock file remembers between two starts


def mark_of(opened: Identity) -> bytes:
    """The mark for the lock file: a store was made here, from these files."""
    inodes = [0 if file is None else file[1] for file in (opened.database, opened.log)]
    return b"A store was made here: database %d, log %d.\n" % tuple(inodes)


_MARK = re.compile(rb"database (\d+), log (\d+)")


def has_mark(path: Path) -> bool:
    """Whether a store was made here before."""
    return bool(size_of(lock_path(path)))


def refuse_leftovers(path: Path) -> None:
    """Refuse a file that was emptied, or put beside the log of another one.

    SQLite would throw away the log of an empty file, and read a log into whatever file it lies
    beside.
    """
    has_log = bool(size_of(log_path(path)))
    if not size_of(path) and (has_log or (size_of(path) == 0 and has_mark(path))):
        raise emptied_error(path)
    if has_log and _is_beside_another_log(path):
        raise StoreDamaged(
            f"{path} is not the file that the log {log_path(path).name} belongs to; nothing was "
            f"changed. Put the file there rightly: {RESTORE}"
        )


def emptied_error(path: Path) -> StoreDamaged:
    """The error for an empty store where there was one with something in it."""
    return StoreDamaged(
        f"{path} is empty or gone, but there was a store here; nothing was changed. {advice(path)}"
    )


def advice(path: Path) -> str:
    """The advice on a store that cannot be used as it is."""
    return (
        f"Put a backup in its place: {RESTORE} "
        f"(or, to start anew, move all files named {path.name}* away)"
    )


def _is_beside_another_log(path: Path) -> bool:
    """Whether the log is still the one that was marked, but the database is another."""
    try:
        marked = _MARK.search(lock_path(path).read_bytes())
    except OSError:
        return False
    now = identity_of(path)
    if marked is None or now.database is None or now.log is None:
        return False
    # Where the whole folder was copied the log is another one, too.
    return int(marked[2]) == now.log[1] and int(marked[1]) != now.database[1]


_WORDS: dict[Change, str] = {
    "removed": "{path} was removed while it was in use; nothing was kept of this call. "
    f"Put a backup there: {RESTORE}",
    "mixed": "{path} was replaced while it was in use, and the log of the old file lies beside it; "
    f"nothing was kept of this call. Put the new file there rightly: {RESTORE}",
    "replaced": "{path} was replaced while it was in use, and nothing was kept of this call. "
    "The new file is used from now on: try again.",
    "log removed": "{path}-wal was removed while it was in use; what had been kept is still there, "
    "but nothing was kept of this call. Try again.",
    "log replaced": "{path}-wal was replaced while it was in use; nothing was kept of this call, "
    "and the newest messages before it may be missing. Look them over, then try again.",
}
