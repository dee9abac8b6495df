"""Rows of messages and what they are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from mcp_compaction import formats
from mcp_compaction.model import Message
from mcp_compaction.store.columns import moment
from mcp_compaction.store.sql import StoredRow, Tx

MESSAGE_COLUMNS = "seq, role, shape, at, tokens, via, speaker, raw"


def message_rows(tx: Tx, session: int, seqs: Sequence[int]) -> list[StoredRow]:
    """The rows of the messages with these numbers, in order."""
    return tx.execute(
        f"SELECT {MESSAGE_COLUMNS} FROM message WHERE session = ?"
        " AND seq IN (SELECT value FROM json_each(?)) ORDER BY seq",
        (session, f"[{','.join(map(str, seqs))}]"),
    ).fetchall()


def to_message(row: Iterable[Any]) -> Message:
    """The message of such a row."""
    seq, role, shape, at, tokens, via, speaker, raw = row
    _, parts = formats.read(shape, raw)
    return Message(
        seq=seq,
        role=role,
        parts=parts,
        shape=shape,
        raw=raw,
        at=moment(at),
        tokens=tokens,
        via=via,
        speaker=speaker,
    )
