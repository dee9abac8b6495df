"""The beginnings that the thinking blocks of a session were made behind."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping

from mcp_compaction.store.sessions import session_row


def thinking(connection: sqlite3.Connection, session: int) -> dict[str, str]:
    """All rows of a session."""
    rows = connection.execute(
        "SELECT block, beginning FROM thinking WHERE session = ?", (session,)
    ).fetchall()
    return dict(rows)


def keep_thinking(
    connection: sqlite3.Connection, session: int, changes: Mapping[str, str | None]
) -> None:
    """Set rows of a session, or remove them; what was left out once stays so."""
    session_row(connection, session)
    connection.executemany(
        "INSERT INTO thinking (session, block, beginning) VALUES (?, ?, ?)"
        " ON CONFLICT DO UPDATE SET beginning = excluded.beginning WHERE beginning != ''",
        [(session, block, mark) for block, mark in changes.items() if mark is not None],
    )
    connection.executemany(
        "DELETE FROM thinking WHERE session = ? AND block = ?",
        [(session, block) for block, mark in changes.items() if mark is None],
    )
