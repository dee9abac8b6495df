"""The alignment of a batch: which messages are known already, and where the new ones go.

The same message is the same host id, else the same content after the same message. A second
"continue" is therefore not dropped, and a moved cache mark makes no duplicate. Other content under
a known host id does not replace what is known, but it is reported. Where a batch says that all its
messages have host ids, content does not count.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from mcp_compaction.errors import InputError, UnknownRef
from mcp_compaction.formats.identity import hash_of
from mcp_compaction.model import NewMessage
from mcp_compaction.ports import Batch
from mcp_compaction.store.columns import encodable


def chain_hash(previous: str, content: str) -> str:
    """The hash of a message in its place: the chain before it and its content."""
    return hash_of(previous, content)


def split_by_content(
    seqs: Sequence[int], stored: Mapping[int, str], contents: Sequence[str]
) -> tuple[list[int], list[int]]:
    """The numbers whose messages say what came, and those that say something else."""
    same: list[int] = []
    changed: list[int] = []
    for seq, content in zip(seqs, contents, strict=True):
        (same if stored[seq] == content else changed).append(seq)
    return same, changed


class Alignment(NamedTuple):
    """The numbers of the known messages a batch starts with, and the message the rest follows."""

    known: tuple[int, ...]
    at: int


class KnownLog(Protocol):
    """The recorded messages of one session, as far as a place for a batch depends on them."""

    last: int

    def by_host_id(self, host_id: str | None) -> int | None:
        """The number of the message with that host id."""
        ...

    def after(self, seq: int, content: str) -> int | None:
        """The number of the message of that content that was said after message `seq`."""
        ...

    def newest(self, limit: int) -> list[str]:
        """The contents of the newest messages, oldest first."""
        ...


class KnownMessages:
    """The recorded messages of one session, looked up one at a time."""

    def __init__(self, connection: sqlite3.Connection, session: int, last: int) -> None:
        self._connection = connection
        self._session = session
        self._moments: dict[str, list[int]] | None = None
        self.last = last

    def by_host_id(self, host_id: str | None) -> int | None:
        """The number of the message with that host id."""
        if host_id is None:
            return None
        return self._read_number(
            "SELECT seq FROM message WHERE session = ? AND host_id = ?", self._session, host_id
        )

    def after(self, seq: int, content: str) -> int | None:
        """The number of the message of that content that was said after message `seq`."""
        return self._read_number(
            "SELECT seq FROM message"
            " WHERE session = ? AND seq = ? AND follows IS NULL AND content = ?"
            " UNION ALL SELECT seq FROM message WHERE session = ? AND follows = ? AND content = ?"
            " LIMIT 1",
            *(self._session, seq + 1, content),
            *(self._session, seq, content),
        )

    def by_content(self, content: str) -> int | None:
        """The number of the newest message of that content that is a host's word."""
        return self._read_number(
            "SELECT seq FROM message WHERE session = ? AND content = ? AND via = 'host'"
            " ORDER BY seq DESC LIMIT 1",
            *(self._session, content),
        )

    def by_call(self, call: str, role: str) -> int | None:
        """The number of the newest message of that role that makes or answers a call."""
        return self._read_number(
            "SELECT message.seq FROM call_message JOIN message USING (session, seq)"
            " WHERE session = ? AND call = ? AND role = ? ORDER BY message.seq DESC LIMIT 1",
            *(self._session, encodable(call), role),
        )

    def at_moment(self, moment: str) -> list[int]:
        """The numbers of the messages that a host says were said at a moment."""
        if self._moments is None:
            self._moments = {}
            rows = self._connection.execute(
                "SELECT at, seq FROM message WHERE session = ? AND at IS NOT NULL", (self._session,)
            )
            for at, seq in rows:
                self._moments.setdefault(at, []).append(seq)
        return self._moments.get(moment, [])

    def newest(self, limit: int) -> list[str]:
        """The contents of the newest messages, oldest first."""
        rows = self._connection.execute(
            "SELECT content FROM message WHERE session = ? AND seq > ? ORDER BY seq",
            (self._session, self.last - limit),
        )
        return [content for (content,) in rows]

    def contents(self, seqs: list[int]) -> dict[int, str]:
        """The contents of the messages with these numbers."""
        rows = self._connection.execute(
            "SELECT seq, content FROM message WHERE session = ?"
            " AND seq IN (SELECT value FROM json_each(?))",
            (self._session, str(seqs)),
        )
        return dict(rows)

    def _read_number(self, sql: str, *parameters: str | int) -> int | None:
        row = self._connection.execute(sql, parameters).fetchone()
        return None if row is None else row[0]


def align(known: KnownLog, batch: Batch, contents: list[str]) -> Alignment:
    """The place where a batch continues the log."""
    if batch.has_ids:
        return Alignment((), known.last)
    if batch.after is not None:
        return _align_after(known, batch, contents, batch.after)
    from_start = _walk(known, batch.messages, contents, 0)
    if batch.whole or (from_start.known and from_start.at == known.last):
        return from_start
    overlap = _count_overlap(known, contents)
    first = known.last - overlap + 1
    return Alignment(tuple(range(first, known.last + 1)), known.last)


def _align_after(known: KnownLog, batch: Batch, contents: list[str], after: int) -> Alignment:
    if not 0 <= after <= known.last:
        raise UnknownRef(f"There is no m{after}; record after m{known.last}, the newest.")
    found = _walk(known, batch.messages, contents, after)
    rest = batch.messages[len(found.known) :]
    if rest and found.at != known.last:
        raise InputError(
            f"m{found.at + 1} is already another message; record after m{known.last}, the newest."
        )
    return found


def _walk(
    known: KnownLog, messages: tuple[NewMessage, ...], contents: list[str], start: int
) -> Alignment:
    seqs: list[int] = []
    at = start
    for message, content in zip(messages, contents, strict=True):
        found = known.by_host_id(message.host_id) or known.after(at, content)
        if found is None:
            break
        seqs.append(found)
        at = found
    return Alignment(tuple(seqs), at)


def _count_overlap(known: KnownLog, contents: list[str]) -> int:
    newest = known.newest(len(contents))
    # One equal message is no overlap: people do say "continue" twice.
    for length in range(len(newest), 1, -1):
        if newest[-length:] == contents[:length]:
            return length
    return 0
