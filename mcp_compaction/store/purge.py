"""Remove the bytes of what was forgotten: the file is written anew and its log is emptied.

A reader that still needs the log keeps both from being done. What is due then waits in the
tombstones and costs nothing: the file is only written anew once the log could be emptied, so the
log never holds more than one copy of the store.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Generator
from contextlib import contextmanager

from mcp_compaction.store.connect import pragma
from mcp_compaction.store.database import Stop, stop_early

# The values of tombstone.purged.
_DUE = 0
_LOG_ONLY = -1  # the file was written anew, its log could not be emptied since
_DONE = 1


def is_purge_due(connection: sqlite3.Connection) -> bool:
    """Whether forgotten bytes may still lie in the file or its write-ahead log."""
    # A purge is for all tombstones there are, so the newest one speaks for them all.
    row = connection.execute("SELECT purged FROM tombstone ORDER BY id DESC LIMIT 1").fetchone()
    return row is not None and row[0] != _DONE


def purge(connection: sqlite3.Connection, stop: Stop) -> bool:
    """Remove all forgotten bytes; False, at no cost, while a reader needs the log."""
    with _without_waiting(connection):
        if not _empty_log(connection):
            return False
        _note_purge(connection, _DONE, _read_newest(connection), _LOG_ONLY)
        if not is_purge_due(connection):
            return True
        upto = _read_newest(connection)
        _rewrite(connection, stop)
        _note_purge(connection, _LOG_ONLY, upto, _DUE)
        if not _empty_log(connection):
            return False
        _note_purge(connection, _DONE, upto, _LOG_ONLY)
        return not is_purge_due(connection)


def _read_newest(connection: sqlite3.Connection) -> int:
    (newest,) = connection.execute("SELECT coalesce(max(id), 0) FROM tombstone").fetchone()
    return newest


def _note_purge(connection: sqlite3.Connection, state: int, upto: int, before: int) -> None:
    connection.execute(
        "UPDATE tombstone SET purged = ? WHERE id <= ? AND purged = ?", (state, upto, before)
    )


def _rewrite(connection: sqlite3.Connection, stop: Stop) -> None:
    """Write the file anew without what was forgotten.

    secure_delete is not enough: when SQLite moves rows between pages it leaves old copies in
    the gaps (found in 3 of 40 random stores), and only VACUUM builds every page afresh.
    """
    # The copy holds only what stays, and may be too large for memory.
    connection.execute("PRAGMA temp_store = FILE")
    try:
        with stop_early(connection, stop):
            connection.execute("VACUUM")
    finally:
        connection.execute("PRAGMA temp_store = MEMORY")


def _empty_log(connection: sqlite3.Connection) -> bool:
    """Empty the write-ahead log; False if a reader needs it."""
    return not connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]


@contextmanager
def _without_waiting(connection: sqlite3.Connection) -> Generator[None]:
    """Statements in the block do not wait for a reader: it may stay for hours."""
    patience = pragma(connection, "busy_timeout")
    connection.execute("PRAGMA busy_timeout = 0")
    try:
        yield
    finally:
        connection.execute(f"PRAGMA busy_timeout = {patience}")
