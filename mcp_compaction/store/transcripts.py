"""How far the transcripts of hosts are recorded, and what they tell of beside messages."""

from __future__ import annotations

from collections.abc import Sequence

from mcp_compaction.model import Event
from mcp_compaction.ports import KnownTranscript, Mark
from mcp_compaction.store.sessions import session_info
from mcp_compaction.store.sql import Tx, encodable, stamp


def find_transcript(tx: Tx, address: str) -> KnownTranscript | None:
    """The place up to which a transcript is recorded; None where nothing of it is."""
    row = tx.execute(
        "SELECT session, position, tail FROM transcript WHERE address = ?", (address,)
    ).fetchone()
    if row is None:
        return None
    session, position, tail = row
    return KnownTranscript(
        mark=Mark(address=address, position=position, tail=tail),
        session=None if session is None else session_info(tx, session),
    )


def save_mark(tx: Tx, session: int, mark: Mark) -> None:
    """Note how far a transcript is recorded."""
    tx.execute(
        "INSERT INTO transcript (address, session, position, tail) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (address) DO UPDATE SET session = excluded.session,"
        " position = excluded.position, tail = excluded.tail",
        (mark.address, session, mark.position, encodable(mark.tail)),
    )


def add_new_events(tx: Tx, session: int, events: Sequence[Event]) -> None:
    """Note what happened, each once: a transcript may be read again from its start."""
    for event in events:
        row = (session, encodable(event.name), stamp(event.at), encodable(event.detail))
        tx.execute(
            "INSERT INTO event (session, name, at, detail) SELECT ?1, ?2, ?3, ?4 WHERE NOT EXISTS"
            " (SELECT 1 FROM event WHERE session = ?1 AND name = ?2 AND at = ?3 AND detail = ?4)",
            row,
        )
