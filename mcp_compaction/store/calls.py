"""The model calls made for a session, and what they took together."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import datetime

from mcp_compaction.model import ModelCall, Spent
from mcp_compaction.store.columns import encodable, stamp
from mcp_compaction.store.sessions import session_row


def add_calls(
    connection: sqlite3.Connection, session: int, calls: Sequence[ModelCall], now: datetime
) -> None:
    """Note calls, those that gave nothing too: they were paid for."""
    session_row(connection, session)
    connection.executemany(
        "INSERT INTO model_call (session, at, model, seconds, input_tokens, output_tokens,"
        " cached_tokens, cost, failed) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (
                *(session, stamp(now), encodable(call.model), call.seconds),
                *(call.input_tokens, call.output_tokens, call.cached_tokens),
                *(call.cost, encodable(call.failed)),
            )
            for call in calls
        ],
    )


def spent(connection: sqlite3.Connection, session: int | None, since: datetime | None) -> Spent:
    """The sum over the calls at or after a moment, of one session or of all."""
    row = connection.execute(
        "SELECT count(*), total(input_tokens), total(output_tokens), total(cached_tokens),"
        " total(cost), total(seconds), total(failed != '') FROM model_call"
        " WHERE (? IS NULL OR session = ?) AND at >= ?",
        (session, session, "" if since is None else stamp(since)),
    ).fetchone()
    return Spent(
        calls=row[0],
        input_tokens=int(row[1]),
        output_tokens=int(row[2]),
        cached_tokens=int(row[3]),
        cost=row[4],
        seconds=row[5],
        failed=int(row[6]),
    )
