"""The identity of a store's files, by which a replacement is noticed.

SQLite keeps writing to a file that was removed or replaced under it, where nobody will ever read
it. Only `os.stat` looks here: closing a descriptor of the live file would drop SQLite's locks.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal, NamedTuple

from mcp_compaction.errors import StoreDamaged
from mcp_compaction.store.lockfile import lock_path

Change = Literal["removed", "replaced", "mixed", "log removed", "log replaced"]
RESTORE: Final = "mcp-compaction store restore FILE"
_File = tuple[int, int]  # device and inode
_MOST_RESTARTS = 1_000  # of a log since it was last marked, which each write does


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


class StoreMark(NamedTuple):
    """What the lock file says of a store: its files, its newest rows, and how it was left."""

    database: int = 0  # inodes
    log: int = 0
    # What a copy keeps, where an inode number may be given anew to another file:
    salt: int = 0  # of the log
    written: str = ""  # size and second of the database
    newest: str = ""  # the numbers of the newest rows that were acknowledged since it was opened
    state: str = ""  # the files as the last user left them; "open" or "doubted" before that

    def to_bytes(self) -> bytes:
        """The text for the lock file."""
        return (
            f"A store was made here: database {self.database}, log {self.log}, "
            f"salt {self.salt}, written {self.written}, rows {self.newest or '-'}, {self.state}.\n"
        ).encode()


_MARK = re.compile(
    rb"database (\d+), log (\d+)(?:, salt (\d+), written ([\d/]+))?(?:, rows ([\d/]+|-), ([^.]*))?"
)


def mark_of_store(path: Path, opened: Identity, state: str, newest: str = "") -> StoreMark:
    """The mark for the lock file: a store was made here, from these files."""
    database, log = (0 if file is None else file[1] for file in (opened.database, opened.log))
    file = path.stat() if size_of(path) else None
    written = f"{file.st_size}/{int(file.st_mtime)}" if file else "0"
    return StoreMark(database, log, _read_salt(log_path(path)), written, newest, state)


def _read_salt(log: Path) -> int:
    """The first salt of a log, which SQLite draws for a new one and counts up at each restart."""
    try:
        with log.open("rb") as file:  # SQLite has no locks on its log that this could drop
            return int.from_bytes(file.read(20)[16:], "big")
    except OSError:
        return 0


def is_same_log(marked: StoreMark, now: StoreMark) -> bool:
    """Whether the log that lies there grew from the one that was marked, or is a copy of it."""
    if not marked.salt or not now.salt:
        return marked.log == now.log
    return (now.salt - marked.salt) % 2**32 < _MOST_RESTARTS


def read_mark(text: bytes) -> StoreMark | None:
    """The mark in the text of a lock file; None where there is none."""
    found = _MARK.search(text)
    if found is None:
        return None
    written, newest, state = ((group or b"").decode() for group in found.group(4, 5, 6))
    database, log, salt = (int(group or 0) for group in found.group(1, 2, 3))
    return StoreMark(database, log, salt, written, newest.strip("-"), state)


def describe_files(path: Path) -> str:
    """The sizes and times of a store's file and its log, which change with every write."""
    found = (file.stat() if size_of(file) else None for file in (path, log_path(path)))
    times = " ".join(f"{file.st_size}/{file.st_mtime_ns}" if file else "0/0" for file in found)
    return f"left at {times}"


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
            f"changed. Put a backup in its place: {RESTORE} (or, if all files of the folder came "
            f"back from one copy of it, move {lock_path(path).name} away: they are looked over)"
        )


def _is_beside_another_log(path: Path) -> bool:
    """Whether the log or the database is the one that was marked, but the other one is not."""
    try:
        marked = read_mark(lock_path(path).read_bytes())
    except OSError:
        return False
    now = mark_of_store(path, identity_of(path), "")
    if marked is None or not now.database:
        return False
    if marked.salt and not is_same_log(marked, now):
        return True
    # Where the whole folder was copied both are others, or the numbers went to other files.
    if marked.database != now.database:
        return marked.log == now.log and marked.written != now.written
    if marked.log and marked.log != now.log and not marked.salt:
        return True
    # A log that came after the last user had left; one that a power cut brought back is older.
    left_at = re.match(r"left at \d+/(\d+) 0/0", marked.state)
    return left_at is not None and log_path(path).stat().st_mtime_ns > int(left_at[1])


def emptied_error(path: Path) -> StoreDamaged:
    """The error for an empty store where there was one with something in it."""
    return StoreDamaged(
        f"{path} is empty or gone, but there was a store here; nothing was changed. {advice(path)}"
    )


def damaged_error(path: Path, problems: Sequence[str]) -> StoreDamaged:
    """The error for a write to a store whose pages or rows are not what was written."""
    more = f" and {len(problems) - 1} more" if len(problems) > 1 else ""
    return StoreDamaged(
        f"{path} is damaged ({problems[0]}{more}); nothing was changed, and what is whole can be "
        "read. See all of it with mcp-compaction doctor, save what can be read with "
        f"mcp-compaction store export, then put a backup in its place: {RESTORE}"
    )


def advice(path: Path) -> str:
    """The advice on a store that cannot be used as it is."""
    return (
        f"Put a backup in its place: {RESTORE} "
        f"(or, to start anew, move all files named {path.name}* away)"
    )


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
