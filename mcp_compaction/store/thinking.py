"""The beginnings that the thinking blocks of a session were made behind."""

from __future__ import annotations

from collections.abc import Mapping

from mcp_compaction.store.sessions import session_row
from mcp_compaction.store.sql import Tx


def thinking(tx: Tx, session: int) -> dict[str, str]:
    """All rows of a session."""
    rows = tx.execute(
        "SELECT block, beginning FROM thinking WHERE session = ?", (session,)
    ).fetchall()
    return dict(rows)


def keep_thinking(tx: Tx, session: int, changes: Mapping[str, str | None]) -> None:
    """Set rows of a session, or remove them; what was left out once stays so."""
    session_row(tx, session)
    tx.executemany(
        "INSERT INTO thinking (session, block, beginning) VALUES (?, ?, ?)"
        " ON CONFLICT (session, block) DO UPDATE SET beginning = excluded.beginning"
        " WHERE thinking.beginning != ''",
        [(session, block, mark) for block, mark in changes.items() if mark is not None],
    )
    tx.executemany(
        "DELETE FROM thinking WHERE session = ? AND block = ?",
        [(session, block) for block, mark in changes.items() if mark is None],
    )
