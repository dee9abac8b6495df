"""Put a backup in the place of a store, so that neither is mixed with the other.

The old files are kept under a dated name, and the backup itself is only read. This process has
no connection to the store, so that it may open its file: there are no locks of its own to lose.
"""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Generator
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from mcp_compaction.errors import InputError, StoreBusy, StoreDamaged, StoreError, StoreNewer
from mcp_compaction.home import make_folder, new_file
from mcp_compaction.store.connect import (
    SCHEMA_VERSION,
    check_origin,
    check_pages,
    open_as,
    store_errors,
)
from mcp_compaction.store.health import find_damage
from mcp_compaction.store.identity import (
    describe_files,
    identity_of,
    log_path,
    mark_of_store,
    size_of,
)
from mcp_compaction.store.lockfile import LockFile
from mcp_compaction.store.schema import refuse_other_tables

_DEADLINE = 10.0
# Where SQLite's connections lock a database that they have open.
_LOCKS_FROM, _LOCKS_LENGTH = 0x40000002, 510


class Backup(NamedTuple):
    """The contents of a backup."""

    path: Path
    mode: str  # of SQLite, in which it is read
    sessions: int
    messages: int


def check_backup(path: Path, store: Path) -> Backup:
    """The contents of a sound backup; anything else is refused."""
    if not path.is_file():
        raise InputError(
            f"{path} is no file; pass a file that mcp-compaction store backup has made."
        )
    if store.exists() and path.samefile(store):
        raise InputError(f"{path} is the store itself; pass a backup of it.")
    # Without a log to read, nothing need be written beside the backup.
    mode = "ro" if size_of(log_path(path)) else "ro&immutable=1"
    try:
        with store_errors(path):
            check_origin(path, _DEADLINE, SCHEMA_VERSION, mode)
            with closing(open_as(path, mode, _DEADLINE)) as connection:
                check_pages(connection)
                refuse_other_tables(connection, path)
                for line in find_damage(connection, path, whole=True):
                    raise StoreDamaged(line)
                sessions, messages = (
                    connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
                    for table in ("session", "message")
                )
    except (StoreNewer, StoreBusy):
        raise
    except StoreError as error:
        raise InputError(
            f"{path} is no sound backup ({error.__cause__ or error}); nothing was changed. "
            "Pass another one."
        ) from error
    return Backup(path, mode, sessions, messages)


def restore_backup(
    backup: Backup, store: Path, now: datetime, deadline: float = _DEADLINE
) -> tuple[Path, ...]:
    """Put a copy of a backup in a store's place; the files that lay there, under their new names.

    Refused while any program has the store open.
    """
    real = Path(os.path.realpath(store))
    lock_file = LockFile(store)
    with store_errors(store):
        make_folder(real.parent)
        try:
            with lock_file.hold(deadline), _keep_unused(real):
                copy = _copy_beside(backup, real)
                kept = _exchange(copy, real, f"{now:%Y%m%d-%H%M%S}")
                lock_file.mark(
                    mark_of_store(store, identity_of(store), describe_files(store)).to_bytes()
                )
                return kept
        finally:
            lock_file.close()


def _copy_beside(backup: Backup, real: Path) -> Path:
    copy = real.with_name(f"{real.name}.restoring-{os.getpid()}")
    copy.unlink(missing_ok=True)
    with new_file(copy):
        with (
            closing(open_as(backup.path, backup.mode, _DEADLINE)) as source,
            closing(sqlite3.connect(copy, isolation_level=None)) as target,
        ):
            source.backup(target)
            check_pages(target)
        _sync(copy)
    return copy


def _exchange(copy: Path, real: Path, date: str) -> tuple[Path, ...]:
    """Lay the old files aside and the copy in their place; the log first, lest it meet the copy."""
    aside = real.with_name(f"{real.stem}-replaced-{date}{real.suffix}")
    kept: list[Path] = []
    for suffix in ("-wal", "-shm"):
        old = Path(f"{real}{suffix}")
        if old.exists():
            kept.append(old.rename(f"{aside}{suffix}"))
    if real.exists():
        try:
            # A second name, so that at no moment the store's own name means nothing.
            os.link(real, aside)
        except OSError:  # a file system without second names
            real.rename(aside)
        kept.append(aside)
    copy.replace(real)
    _sync(real.parent)
    return tuple(sorted(kept))


def _sync(path: Path) -> None:
    if sys.platform == "win32":  # neither needed nor possible for a folder there
        return
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


# Who has it open


if sys.platform == "win32":

    @contextmanager
    def _keep_unused(real: Path) -> Generator[None]:
        """Refuse if a program has the store open: on Windows an open file cannot be renamed."""
        try:
            yield
        except PermissionError as error:
            raise _error_of_use(real) from error

else:
    import fcntl

    @contextmanager
    def _keep_unused(real: Path) -> Generator[None]:
        """Refuse if a program has the store open, and let none open it inside the block."""
        if not real.exists():
            yield
            return
        fd = os.open(real, os.O_RDWR)
        try:
            try:
                fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, _LOCKS_LENGTH, _LOCKS_FROM)
            except (BlockingIOError, PermissionError) as error:
                raise _error_of_use(real) from error
            yield
        finally:
            os.close(fd)


def _error_of_use(real: Path) -> StoreError:
    users = _find_users(real)
    who = f"in use by {', '.join(users)}" if users else "in use by another program"
    return StoreBusy(
        f"{real} is {who}; nothing was changed. Close all hosts and programs that use it, "
        "then run this again."
    )


def _find_users(real: Path, locks: Path = Path("/proc/locks")) -> list[str]:
    """The processes that lock a file, where the system lists them."""
    try:
        lines = locks.read_text().splitlines()
    except OSError:
        return []
    inode = str(real.stat().st_ino)
    fields = [line.split() for line in lines]
    pids = {int(f[4]) for f in fields if len(f) > 5 and f[5].rsplit(":", 1)[-1] == inode}
    return [f"{_name_of(pid)} (process {pid})" for pid in sorted(pids - {os.getpid(), 0})]


def _name_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return "a program"
