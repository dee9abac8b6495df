"""The recorded messages that a batch may mean, read at once instead of one at a time."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime

from mcp_compaction.model import Message
from mcp_compaction.ports import HOST_COMPACTED, Batch
from mcp_compaction.store.align import (
    CLOCKS,
    MESSAGE_COLUMNS,
    MOST_UNNAMED,
    KnownMessage,
    calls_of,
    to_message,
)
from mcp_compaction.store.postgres.database import PgRow, PgTx
from mcp_compaction.store.postgres.dialect import plain
from mcp_compaction.store.sessions import events
from mcp_compaction.store.sql import encodable, stamp


class KnownOfBatch:
    """Those messages of a session that may be among a batch's, and those of the batch so far."""

    is_looked_up = False

    def __init__(self, last: int, moments: Sequence[datetime]) -> None:
        self.last = last
        self._moments = moments  # at which the host has compacted
        self._unnamed: list[tuple[str, Message]] = []
        self._newest: list[str] = []
        self._by_seq: dict[int, KnownMessage] = {}
        self._by_host_id: dict[str, int] = {}
        self._by_content: dict[str, list[int]] = {}
        self._following: dict[tuple[int, str], int] = {}
        self._by_call: dict[tuple[str, str], int] = {}
        self._by_moment: dict[str, list[Message]] = {}

    def add(self, message: KnownMessage) -> None:
        """Know one message more."""
        self._by_seq[message.seq] = message
        if message.host_id is not None:
            self._by_host_id.setdefault(plain(message.host_id), message.seq)
        self._by_content.setdefault(message.content, []).append(message.seq)
        before = message.seq - 1 if message.follows is None else message.follows
        self._following.setdefault((before, message.content), message.seq)

    def add_call(self, call: str, role: str, seq: int) -> None:
        """Know that a message makes or answers a call."""
        known = self._by_call.get((plain(call), role), 0)
        self._by_call[plain(call), role] = max(known, seq)

    def add_moment(self, moment: str, message: Message) -> None:
        """Know that a message was said at a moment."""
        self._by_moment.setdefault(moment, []).append(message)

    def name(self, seq: int, host_id: str) -> None:
        """Know a message by the id that its host gave it later."""
        self._by_host_id[plain(host_id)] = seq

    def by_host_id(self, host_id: str | None) -> int | None:
        """The number of the message with that host id."""
        return None if host_id is None else self._by_host_id.get(plain(host_id))

    def after(self, seq: int, content: str) -> int | None:
        """The number of the message of that content that was said after message `seq`."""
        return self._following.get((seq, content))

    def by_content(self, content: str, *, is_hosts: bool) -> int | None:
        """The number of the newest message of that content; `is_hosts`: that is a host's word."""
        seqs = self._by_content.get(content, ())
        said = (seq for seq in seqs if not is_hosts or self._by_seq[seq].via == "host")
        return max(said, default=None)

    def by_call(self, call: str, role: str) -> int | None:
        """The number of the newest message of that role that makes or answers a call."""
        return self._by_call.get((plain(call), role))

    def at_moment(self, moment: str) -> list[Message]:
        """The messages that a host says were said at a moment."""
        return self._by_moment.get(moment, [])

    def unnamed(self, since: datetime | None) -> Sequence[tuple[str, Message]]:
        """The newest messages without a host's id that were recorded since a moment, and when."""
        return [one for one in self._unnamed if since is None or one[0] >= stamp(since)]

    def add_unnamed(self, recorded: str, message: Message) -> None:
        """Know a message that came without a host's id, and when."""
        self._unnamed.append((recorded, message))

    def compacted(self) -> Sequence[datetime]:
        """When the host has compacted the session."""
        return self._moments

    def newest(self, limit: int) -> list[str]:
        """The contents of the newest messages, oldest first."""
        return self._newest[-limit:] if limit else []

    def contents(self, seqs: list[int]) -> dict[int, str]:
        """The contents of the messages with these numbers."""
        return {seq: self._by_seq[seq].content for seq in seqs if seq in self._by_seq}

    def set_newest(self, contents: list[str]) -> None:
        """Know what the newest messages say, oldest first."""
        self._newest = contents


def read_known(tx: PgTx, session: PgRow, batch: Batch, contents: list[str]) -> KnownOfBatch:
    """The messages of a session that a batch may mean."""
    number, last = session["id"], session["last_seq"]
    known = KnownOfBatch(
        last, [event.at for event in events(tx, number, HOST_COMPACTED)] if batch.has_ids else ()
    )
    ids = [one for m in batch.messages for one in (m.host_id, m.early_id) if one is not None]
    rows = tx.execute(
        f"SELECT {_KNOWN} FROM message WHERE session = ? AND (content IN (SELECT value FROM"
        " json_each(?)) OR host_id IN (SELECT value FROM json_each(?))) ORDER BY seq",
        (number, json.dumps(contents), json.dumps(ids)),
    )
    for row in rows:
        known.add(KnownMessage(*row))
    if not (batch.has_ids or batch.whole or batch.after is not None):
        rows = tx.execute(
            "SELECT content FROM message WHERE session = ? AND seq > ? ORDER BY seq",
            (number, last - len(contents)),
        )
        known.set_newest([content for (content,) in rows])
    if batch.has_ids:
        _read_unnamed(tx, number, batch, known)
    if known.compacted() or any(event.name == HOST_COMPACTED for event in batch.events):
        _read_repeated(tx, number, batch, known)
    return known


_KNOWN = "message.seq, message.follows, message.content, message.host_id, message.via"


def _read_unnamed(tx: PgTx, session: int, batch: Batch, known: KnownOfBatch) -> None:
    """Read what came without a host's id, as far as it may be of this batch."""
    moments = [message.at for message in batch.messages]
    told = [at for at in moments if at is not None]
    since = stamp(min(told) - CLOCKS) if told and len(told) == len(moments) else ""
    rows = tx.execute(
        f"SELECT recorded, {_KNOWN}, {MESSAGE_COLUMNS} FROM message WHERE session = ?"
        " AND host_id IS NULL AND recorded >= ? ORDER BY seq DESC LIMIT ?",
        (session, since, MOST_UNNAMED),
    ).fetchall()
    for row in reversed(rows):
        known.add_unnamed(row[0], to_message(row[6:]))
        known.add(KnownMessage(*row[1:6]))


def _read_repeated(tx: PgTx, session: int, batch: Batch, known: KnownOfBatch) -> None:
    """Read what a host that has compacted may have written down once more."""
    calls = [encodable(call) for message in batch.messages for call in calls_of(message)]
    rows = tx.execute(
        f"SELECT made.call, message.role, {_KNOWN} FROM call_message AS made JOIN message"
        " ON message.session = made.session AND message.seq = made.seq"
        " WHERE made.session = ? AND made.call IN (SELECT value FROM json_each(?))",
        (session, json.dumps(calls)),
    )
    for row in rows:
        known.add_call(row[0], row[1], row[2])
        known.add(KnownMessage(*row[2:]))
    moments = [stamp(message.at) for message in batch.messages if message.at is not None]
    rows = tx.execute(
        f"SELECT {_KNOWN}, {MESSAGE_COLUMNS} FROM message WHERE session = ?"
        " AND at IN (SELECT value FROM json_each(?)) ORDER BY seq",
        (session, json.dumps(moments)),
    )
    for row in rows:
        known.add_moment(row["at"], to_message(row[5:]))
        known.add(KnownMessage(*row[:5]))
