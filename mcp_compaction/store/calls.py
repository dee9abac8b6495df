"""The model calls made for a session, and what they took together."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from mcp_compaction.model import ModelCall, Spent
from mcp_compaction.store.columns import encodable, stamp
from mcp_compaction.store.sessions import session_row
from mcp_compaction.store.sql import Tx


def add_calls(tx: Tx, session: int, calls: Sequence[ModelCall], now: datetime) -> None:
    """Note calls, those that gave nothing too: they were paid for."""
    session_row(tx, session)
    tx.executemany(
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


def spent(tx: Tx, session: int | None, since: datetime | None) -> Spent:
    """The sum over the calls at or after a moment, of one session or of all."""
    row = tx.execute(
        "SELECT count(*), coalesce(sum(input_tokens), 0), coalesce(sum(output_tokens), 0),"
        " coalesce(sum(cached_tokens), 0), coalesce(sum(cost), 0.0), coalesce(sum(seconds), 0.0),"
        " count(nullif(failed, '')) FROM model_call WHERE session = coalesce(?, session)"
        " AND at >= ?",
        (session, "" if since is None else stamp(since)),
    ).fetchone()
    return Spent(
        calls=row[0],
        input_tokens=int(row[1]),
        output_tokens=int(row[2]),
        cached_tokens=int(row[3]),
        cost=row[4],
        seconds=row[5],
        failed=row[6],
    )
