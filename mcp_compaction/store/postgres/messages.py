"""Rows of messages and what they are."""

from __future__ import annotations

from collections.abc import Sequence

from mcp_compaction import formats
from mcp_compaction.model import Message
from mcp_compaction.store.columns import moment
from mcp_compaction.store.postgres.database import Row, Tx

MESSAGE_COLUMNS = "seq, role, shape, at, tokens, via, speaker, raw"


def to_message(row: Row) -> Message:
    """The message of such a row."""
    raw: str = row["raw"].decode()
    _, parts = formats.read(row["shape"], raw)
    return Message(
        seq=row["seq"],
        role=row["role"],
        parts=parts,
        shape=row["shape"],
        raw=raw,
        at=moment(row["at"]),
        tokens=row["tokens"],
        via=row["via"],
        speaker=row["speaker"],
    )


def read_messages(tx: Tx, session: int, seqs: Sequence[int]) -> list[Message]:
    """The messages with these numbers, in order."""
    rows = tx.all(
        f"SELECT {MESSAGE_COLUMNS} FROM message WHERE owner = %(owner)s"
        " AND session = %(session)s AND seq = ANY(%(seqs)s) ORDER BY seq",
        session=session,
        seqs=list(seqs),
    )
    return [to_message(row) for row in rows]
