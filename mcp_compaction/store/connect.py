"""Open the store's file: where it is, and how SQLite must be set before anyone may use it.

Standard library only, since a hook imports this on every event. The live file is opened by
nothing but SQLite: closing any other descriptor of it would drop SQLite's locks.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import stat
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from mcp_compaction.errors import (
    StoreBusy,
    StoreDamaged,
    StoreError,
    StoreFull,
    StoreNewer,
    StoreReadOnly,
)
from mcp_compaction.home import STORE, make_folder, open_new
from mcp_compaction.store.identity import (
    RESTORE,
    advice,
    emptied_error,
    has_mark,
    log_path,
    refuse_leftovers,
    size_of,
)
from mcp_compaction.store.lockfile import LockFile

APPLICATION_ID: Final = 0x6D637063  # "mcpc"
SCHEMA_VERSION: Final = 11

_SETTINGS: Final = {
    "synchronous": 2,  # FULL: the only one under which "acknowledged" holds after a power cut
    "secure_delete": 1,
    "cell_size_check": 1,
    "mmap_size": 0,
    "foreign_keys": 1,
    "temp_store": 2,  # in memory: a forgotten text must not survive in a temporary file
    "trusted_schema": 0,
}
_MAC_SETTINGS: Final = {"fullfsync": 1, "checkpoint_fullfsync": 1}
# WAL needs shared memory between all users of the file, which these do not give.
_REMOTE: Final = frozenset(
    {"9p", "afs", "beegfs", "ceph", "cifs", "drvfs", "fuse", "glusterfs", "lustre", "ncpfs"}
    | {"nfs", "nfs4", "prl_fs", "smb3", "smbfs", "vboxsf", "virtiofs"}
)


def store_path(home: Path) -> Path:
    """The store's file in its folder."""
    return STORE.path(home)


def connect(
    path: Path,
    *,
    deadline: float,
    readonly: bool = False,
    newest: int = SCHEMA_VERSION,
    lock: LockFile | None = None,
) -> sqlite3.Connection:
    """A connection with every setting made and read back; its schema may still have to be migrated.

    A missing or empty file is made ready; a foreign, damaged or newer one is left untouched, and so
    is one that has been emptied. `lock` is the lock file if the caller already holds it.
    """
    with store_errors(path):
        if path.is_dir():
            raise StoreError(f"{path} is a folder, and the store is a file; move it away.")
        refuse_leftovers(path)
        if not readonly:
            refuse_remote(path)
            _refuse_open_folder(path.parent)
            _make_ready(path, deadline, lock)
        mode = _find_reading_mode(path, deadline) if readonly else "rw"
        check_origin(path, deadline, newest, mode if readonly else "ro")
        connection = open_as(path, mode, deadline)
        try:
            if not readonly:
                _ensure_wal(connection, path, deadline, lock)
            _set_up(connection, deadline)
        except BaseException:
            connection.close()
            raise
    return connection


def _make_ready(path: Path, deadline: float, lock: LockFile | None) -> None:
    if path.exists():
        return
    make_folder(path.parent)
    with _hold_lock(path, deadline, lock) as held:
        if not path.exists():
            held.mark(b"")  # the store that was made here was moved away
            # Made under another name: no descriptor of the live file is ever ours to close.
            fresh = path.with_name(f"{path.name}.new-{os.getpid()}")
            fresh.unlink(missing_ok=True)
            open_new(fresh).close()
            fresh.rename(path)


@contextmanager
def _hold_lock(path: Path, deadline: float, lock: LockFile | None) -> Generator[LockFile]:
    if lock is not None:
        yield lock
        return
    own = LockFile(path)
    try:
        with own.hold(deadline):
            yield own
    finally:
        own.close()


def open_as(path: Path, mode: str, deadline: float) -> sqlite3.Connection:
    """A bare connection in one of SQLite's modes."""
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        uri=True,
        timeout=deadline,
        isolation_level=None,
        check_same_thread=False,
    )
    connection.row_factory = sqlite3.Row
    return connection


def _find_reading_mode(path: Path, deadline: float) -> str:
    """The mode to read a file in: where nothing can be written, SQLite cannot share it."""
    probe = open_as(path, "ro", deadline)
    try:
        pragma(probe, "user_version")
    except sqlite3.OperationalError as error:
        if _primary_code_of(error) not in _UNWRITABLE or size_of(log_path(path)):
            raise
        return _UNSHARED
    finally:
        probe.close()
    return "ro"


_UNSHARED: Final = "ro&immutable=1"
_UNWRITABLE: Final = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)


def check_origin(path: Path, deadline: float, newest: int, mode: str = "ro") -> None:
    """Refuse a file that another program made, or a newer version of this one."""
    # A read-only connection: closing it never checkpoints, so what is not ours stays as it is.
    probe = open_as(path, mode, deadline)
    try:
        application = pragma(probe, "application_id")
        version = pragma(probe, "user_version")
        tables = probe.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    finally:
        probe.close()
    if application == 0 and version == 0 and tables == 0:
        if has_mark(path):
            raise emptied_error(path)
        return
    if application != APPLICATION_ID:
        raise StoreDamaged(
            f"{path} is a SQLite file of another program and was left untouched; move it away "
            "or set MCP_COMPACTION_HOME to another folder."
        )
    if not isinstance(version, int) or version > newest:
        raise StoreNewer(
            f"{path} has schema {version}, this version knows {newest}; it was left untouched. "
            "Update with: pip install --upgrade mcp-compaction"
        )


def _ensure_wal(
    connection: sqlite3.Connection, path: Path, deadline: float, lock: LockFile | None
) -> None:
    if pragma(connection, "journal_mode") == "wal":
        return
    end = time.monotonic() + deadline
    with _hold_lock(path, deadline, lock):
        # The switch ignores the busy handler, and another process may be looking at the file.
        while True:
            try:
                mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
                break
            except sqlite3.OperationalError as error:
                if _primary_code_of(error) != sqlite3.SQLITE_BUSY or time.monotonic() >= end:
                    raise
                time.sleep(0.002)
    if mode != "wal":
        raise StoreError(
            f"SQLite cannot use write-ahead logging for {path}; "
            "set MCP_COMPACTION_HOME to a folder on a local disk."
        )


def _set_up(connection: sqlite3.Connection, deadline: float) -> None:
    wanted: dict[str, int] = {"busy_timeout": int(deadline * 1000), **_SETTINGS}
    if sys.platform == "darwin":
        wanted |= _MAC_SETTINGS
    for name, value in wanted.items():
        connection.execute(f"PRAGMA {name} = {value}")
        found = pragma(connection, name)
        # A SQLite built without memory mapping has no such setting, which is as good as 0.
        if found != value and not (name == "mmap_size" and found is None):
            raise StoreError(
                f"SQLite {sqlite3.sqlite_version} keeps {name} at {found} instead of {value}; "
                "run with a Python whose SQLite is complete."
            )


def pragma(connection: sqlite3.Connection, name: str) -> int | str | None:
    """The present value of a PRAGMA."""
    row = connection.execute(f"PRAGMA {name}").fetchone()
    return None if row is None else row[0]


def check_pages(connection: sqlite3.Connection, by: str = "integrity_check") -> None:
    """Refuse a database in which SQLite finds a fault."""
    (found,) = connection.execute(f"PRAGMA {by}(1)").fetchone()
    if found != "ok":
        raise StoreDamaged(f"The store is damaged ({found}). Put a backup in its place: {RESTORE}")


def refuse_remote(path: Path, mounts: Path = Path("/proc/self/mounts")) -> None:
    """Refuse a file system on which SQLite's write-ahead log is not safe."""
    kind = _find_file_system(path, mounts)
    if kind in _REMOTE or kind.startswith("fuse."):
        raise StoreError(
            f"{path.parent} is on a {kind} file system, where the store could lose writes; "
            "set MCP_COMPACTION_HOME to a folder on a local disk."
        )


def _refuse_open_folder(folder: Path) -> None:
    """Refuse a folder in which anybody could put other files in the place of ours."""
    if os.name != "nt" and folder.is_dir() and folder.stat().st_mode & stat.S_IWOTH:
        raise StoreError(
            f"{folder} can be written by everybody; nothing was changed. "
            f"Run: chmod go-w '{folder}' (or set MCP_COMPACTION_HOME to a folder of yours)"
        )


def _find_file_system(path: Path, mounts: Path) -> str:
    try:
        lines = mounts.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    real = path.resolve()
    best, kind = "", ""
    for fields in (line.split(" ") for line in lines):
        place = fields[1].replace("\\040", " ")
        # A later line for the same place lies over the earlier one.
        if len(place) >= len(best) and real.is_relative_to(place):
            best, kind = place, fields[2]
    return kind


# What went wrong


@contextmanager
def store_errors(path: Path) -> Generator[None]:
    """Raise what SQLite and the file system say as errors of ours."""
    try:
        yield
    except sqlite3.Error as error:
        raise store_error(error, path) from error
    except OSError as error:
        raise _error_of_file(error, path) from error


def store_error(error: sqlite3.Error, path: Path) -> StoreError:
    """The error of ours that an error of SQLite means."""
    code = getattr(error, "sqlite_errorcode", None)
    match _primary_code_of(error):
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return StoreBusy(f"Another program holds {path}; close it or try again.")
        case sqlite3.SQLITE_FULL:
            return _error_of_full_disk(path)
        case sqlite3.SQLITE_IOERR if code in _NO_ROOM:
            return _error_of_full_disk(path)
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM:
            return _error_of_read_only(path)
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return StoreDamaged(
                f"{path} is not a sound store ({error}) and was left untouched. {advice(path)}"
            )
        case _:
            return StoreError(f"SQLite refused: {error}. Run: mcp-compaction doctor")


# A quota or a size limit on files comes as a failed write, not as a full disk.
_NO_ROOM: Final = (
    sqlite3.SQLITE_IOERR_WRITE,
    sqlite3.SQLITE_IOERR_SHMSIZE,
    sqlite3.SQLITE_IOERR_TRUNCATE,
)


def _primary_code_of(error: sqlite3.Error) -> int | None:
    code = getattr(error, "sqlite_errorcode", None)
    return code & 0xFF if isinstance(code, int) else None


def _error_of_file(error: OSError, path: Path) -> StoreError:
    if error.errno in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT):
        return _error_of_full_disk(path)
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return _error_of_read_only(path)
    return StoreError(
        f"{path} cannot be used: {error}. Set MCP_COMPACTION_HOME to a usable folder."
    )


def _error_of_full_disk(path: Path) -> StoreFull:
    return StoreFull(
        f"There is no room to write {path}; nothing was changed. Free some space and try again."
    )


def _error_of_read_only(path: Path) -> StoreReadOnly:
    return StoreReadOnly(
        f"{path} cannot be written; correct the permissions of the file and its folder "
        "or set MCP_COMPACTION_HOME to a folder of yours."
    )
