"""The log of what was said: appended to, read from, never rewritten."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from mcp_compaction.errors import LogMoved
from mcp_compaction.formats.identity import content_hash, without_clock
from mcp_compaction.model import Logged, Message, NewMessage
from mcp_compaction.ports import Batch, Original, Placed, Recorded, Scope
from mcp_compaction.store import passages, views
from mcp_compaction.store.align import (
    Alignment,
    KnownMessages,
    Recognizer,
    align,
    chain_hash,
    split_by_content,
)
from mcp_compaction.store.columns import encodable, encodable_json, stamp, to_json
from mcp_compaction.store.messages import MESSAGE_COLUMNS, message_rows, to_message
from mcp_compaction.store.passages import StoredPassage
from mcp_compaction.store.scope import one_session
from mcp_compaction.store.sessions import calibrate, session_row
from mcp_compaction.store.transcripts import add_new_events, save_mark


class _Link(NamedTuple):
    seq: int
    follows: int | None
    content: str
    chain: str


def append(connection: sqlite3.Connection, session: int, batch: Batch, now: datetime) -> Recorded:
    """Append what is not yet known; known messages keep their numbers.

    A caller keeps a batch to 1,000 messages, so that other processes can write in between.
    """
    row = session_row(connection, session)
    known = KnownMessages(connection, session, row["last_seq"])
    contents = [content_hash(message) for message in batch.messages]
    if batch.placed is not None:
        return _append_placed(connection, row, batch, contents, batch.placed, stamp(now))
    start = align(known, batch, contents)
    log = _Log(connection, row, batch, stamp(now))
    seqs = [*start.known, *log.extend(known, start, contents)]
    same, changed = split_by_content(seqs, known.contents(seqs), contents)
    if batch.via == "host":
        told = {seq for seq, m in zip(seqs, batch.messages, strict=True) if m.via == "tool"}
        vouch(connection, session, [seq for seq in same if seq not in told])
    leaves = batch.whole and log.new and start.at < known.last
    diverged = start.at + 1 if leaves else next(iter(changed), None)
    _save_beside(connection, batch, log, stamp(now))
    return Recorded(seqs=tuple(seqs), new=log.new, diverged=diverged)


def _append_placed(
    connection: sqlite3.Connection,
    row: sqlite3.Row,
    batch: Batch,
    contents: list[str],
    placed: Placed,
    now: str,
) -> Recorded:
    """Append a batch that was laid beside the log, and show the view that comes of it."""
    session: int = row["id"]
    if row["last_seq"] != placed.newest:
        raise LogMoved("others wrote to this session meanwhile; try again.")
    if placed.view is not None:
        if row["view_version"] != placed.base_version:
            raise LogMoved("the view of this session has changed meanwhile; try again.")
        views.put(connection, session, placed.view, placed.base_version + 1)
    log = _Log(connection, row, batch, now)
    known = KnownMessages(connection, session, placed.newest)
    seqs = log.append_all(known, contents, placed)
    if batch.via == "host":
        vouch(connection, session, placed.same)
    if batch.calibration is not None and row["view_version"] == placed.base_version:
        counted, reported = batch.calibration.counted, batch.calibration.reported
        calibrate(connection, session, counted, reported)
    _save_beside(connection, batch, log, now)
    return Recorded(seqs=tuple(seqs), new=log.new)


def _save_beside(connection: sqlite3.Connection, batch: Batch, log: _Log, now: str) -> None:
    """Save all that came beside the messages of a batch, and where the log ends now."""
    if _save_sections(connection, log.session, batch, now) or log.new:
        log.save_end()
    add_new_events(connection, log.session, batch.events)
    if batch.mark is not None:
        save_mark(connection, log.session, batch.mark)


def history(connection: sqlite3.Connection, session: int) -> tuple[Logged, ...]:
    """All messages of a session by their identity, in order."""
    rows = connection.execute(
        "SELECT seq, role, content, host_id FROM message WHERE session = ? ORDER BY seq", (session,)
    )
    return tuple(Logged(*row) for row in rows)


def hearsay(connection: sqlite3.Connection, session: int) -> tuple[Message, ...]:
    """The messages in the user's role that only somebody else told of."""
    rows = connection.execute(
        f"SELECT {MESSAGE_COLUMNS} FROM message WHERE session = ? AND via = 'tool'"
        " AND role = 'user' ORDER BY seq",
        (session,),
    )
    return tuple(map(to_message, rows))


def vouch(connection: sqlite3.Connection, session: int, seqs: Sequence[int]) -> None:
    """Note that the host itself said these too, not only an agent."""
    if not seqs:
        return
    connection.execute(
        "UPDATE message SET via = 'host' WHERE session = ? AND via = 'tool'"
        " AND seq IN (SELECT value FROM json_each(?))",
        (session, json.dumps(list(seqs))),
    )


def originals(
    connection: sqlite3.Connection, scope: Scope, seqs: Sequence[int], after: int, limit: int
) -> tuple[Original, ...]:
    """Messages of one session by number, or those after a number."""
    session = one_session(connection, scope)
    name = session_row(connection, session)["name"]
    if seqs:
        rows = message_rows(connection, session, seqs)[:limit]
    else:
        rows = connection.execute(
            f"SELECT {MESSAGE_COLUMNS} FROM message WHERE session = ? AND seq > ?"
            " ORDER BY seq LIMIT ?",
            (session, after, limit),
        ).fetchall()
    return tuple(Original(session=name, message=to_message(row)) for row in rows)


def count_answers(connection: sqlite3.Connection, session: int) -> int:
    """How often the model has answered in that session."""
    query = "SELECT count(*) FROM message WHERE session = ? AND role = 'assistant'"
    (number,) = connection.execute(query, (session,)).fetchone()
    return number


def messages_of_calls(
    connection: sqlite3.Connection, scope: Scope, calls: Sequence[str]
) -> tuple[tuple[int, ...], ...]:
    """The messages of one session with each tool call and its result, by the call's id."""
    session = one_session(connection, scope)
    return tuple(_messages_of(connection, session, call) for call in calls)


def _messages_of(connection: sqlite3.Connection, session: int, call: str) -> tuple[int, ...]:
    rows = connection.execute(
        "SELECT seq FROM call_message WHERE session = ? AND call = ? ORDER BY seq",
        (session, encodable(call)),
    )
    seqs = tuple(seq for (seq,) in rows)
    first = map(to_message, message_rows(connection, session, seqs[:1]))
    if any(made.id == call for message in first for made in message.calls):
        return seqs
    return _scan_for_call(connection, session, call)


def _scan_for_call(connection: sqlite3.Connection, session: int, call: str) -> tuple[int, ...]:
    """The messages with a call that was made before schema 7 noted which they are.

    The session is read through: 0.16 s for 100,000 messages of 600 bytes.
    """
    known = connection.execute(
        "SELECT 1 FROM tool_call WHERE session = ? AND call = ?", (session, encodable(call))
    ).fetchone()
    if known is None:
        return ()
    # LIKE beats instr; what its wildcards match besides is left out below.
    rows = connection.execute(
        f"SELECT {MESSAGE_COLUMNS} FROM message WHERE session = ? AND raw LIKE ? ORDER BY seq",
        (session, f"%{json.dumps(call)}%"),
    )
    return tuple(message.seq for message in map(to_message, rows) if _has_call(message, call))


def _has_call(message: Message, call: str) -> bool:
    return call in (*(c.id for c in message.calls), *(r.call for r in message.results))


class _Log:
    """The end of one session's log while a batch is appended to it."""

    def __init__(
        self, connection: sqlite3.Connection, row: sqlite3.Row, batch: Batch, now: str
    ) -> None:
        self._connection = connection
        self.session: int = row["id"]
        self._project: str = row["project"]
        self._seq: int = row["last_seq"]
        self._chain: str = row["last_chain"]
        self._last_moment: str = row["updated"]
        self._batch = batch
        self._now = now
        self.new = 0

    def extend(self, known: KnownMessages, start: Alignment, contents: list[str]) -> list[int]:
        """Append what follows the known start; numbers of all of it, in order."""
        seqs: list[int] = []
        skip = len(start.known)
        branch = start.at if self._batch.whole and start.at < known.last else None
        recognizer = Recognizer(known, self._batch, self._last_moment)
        for place, message in enumerate(self._batch.messages[skip:], start=skip):
            found = recognizer.find(place, contents[place])
            if found is None:
                self._append(message, contents[place], branch)
                branch = None
            elif found.is_to_name and message.host_id is not None:
                at = None if message.at is None else stamp(message.at)
                self._connection.execute(
                    "UPDATE message SET host_id = ?, at = coalesce(at, ?)"
                    " WHERE session = ? AND seq = ?",
                    (encodable(message.host_id), at, self.session, found.seq),
                )
            seqs.append(found.seq if found is not None else self._seq)
            recognizer.add(message, seqs[-1])
        return seqs

    def append_all(self, known: KnownMessages, contents: list[str], placed: Placed) -> list[int]:
        """Append a batch whose place is known; the numbers of its messages."""
        seqs: list[int] = []
        for message, content, follows in zip(
            self._batch.messages, contents, placed.follows, strict=True
        ):
            if known.by_host_id(message.host_id) is not None:  # an id names one message
                message = message.model_copy(update={"host_id": None})
            self._append(message, content, None if follows == self._seq else follows)
            seqs.append(self._seq)
        return seqs

    def _append(self, message: NewMessage, content: str, follows: int | None) -> None:
        self._seq += 1
        self._chain = chain_hash(self._chain, content)
        self.new += 1
        self._insert(message, _Link(self._seq, follows, content, self._chain))
        tools = self._note_tools(message)
        at = self._now if message.at is None else stamp(message.at)
        for ordinal, (by, text) in enumerate(message.passages):
            row = StoredPassage(
                self.session, self._project, "m", self._seq, ordinal, by, at, tools, text
            )
            passages.insert(self._connection, row)

    def _insert(self, message: NewMessage, link: _Link) -> None:
        self._connection.execute(
            "INSERT INTO message (session, seq, follows, role, shape, host_id, content, chain, at,"
            " recorded, tokens, counter, via, speaker, raw)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *(self.session, link.seq, link.follows, message.role, message.shape),
                *(None if message.host_id is None else encodable(message.host_id), link.content),
                *(link.chain, None if message.at is None else stamp(message.at), self._now),
                *(message.tokens, self._batch.counter, message.via or self._batch.via),
                message.speaker,
                encodable_json(message.raw),
            ),
        )

    def _note_tools(self, message: NewMessage) -> tuple[str, ...]:
        """The tools a message calls or answers for."""
        names: list[str] = []
        for part in message.parts:
            if part.kind == "call":
                self._note_call(part.id)
                self._connection.execute(
                    "INSERT OR REPLACE INTO tool_call (session, call, tool) VALUES (?, ?, ?)",
                    (self.session, encodable(part.id), encodable(part.name)),
                )
                names.append(part.name)
            elif part.kind == "result":
                self._note_call(part.call)
                row = self._connection.execute(
                    "SELECT tool FROM tool_call WHERE session = ? AND call = ?",
                    (self.session, encodable(part.call)),
                ).fetchone()
                names += [] if row is None else [row[0]]
        return tuple(names)

    def _note_call(self, call: str) -> None:
        """Note that the newest message makes or answers a call."""
        self._connection.execute(
            "INSERT OR IGNORE INTO call_message (session, call, seq) VALUES (?, ?, ?)",
            (self.session, encodable(call), self._seq),
        )

    def save_end(self) -> None:
        """Note in the session where its log ends now."""
        self._connection.execute(
            "UPDATE session SET last_seq = ?, last_chain = ?, updated = max(updated, ?)"
            " WHERE id = ?",
            (self._seq, self._chain, self._last_used(), self.session),
        )

    def _last_used(self) -> str:
        """The moment of the newest message where a transcript tells it, else now."""
        told = [stamp(message.at) for message in self._batch.messages if message.at is not None]
        return min(self._now, max(told)) if self._batch.has_ids and told else self._now


def _save_sections(connection: sqlite3.Connection, session: int, batch: Batch, now: str) -> bool:
    if batch.sections is None:
        return False
    given = (batch.section_tokens, batch.memory_tokens, to_json(batch.sections))
    latest = section_row(connection, session)
    if latest is not None and tuple(latest) == given:
        return False
    if latest is not None and without_clock(latest["json"]) == without_clock(given[-1]):
        # A clock in a system prompt would leave a row with each request.
        connection.execute(
            "UPDATE section SET section_tokens = ?, memory_tokens = ?, json = ?"
            " WHERE id = (SELECT max(id) FROM section WHERE session = ?)",
            (*given, session),
        )
        return True
    connection.execute(
        "INSERT INTO section (session, at, section_tokens, memory_tokens, json)"
        " VALUES (?, ?, ?, ?, ?)",
        (session, now, *given),
    )
    return True


def section_row(connection: sqlite3.Connection, session: int) -> sqlite3.Row | None:
    """The newest sections of a session with their counts."""
    return connection.execute(
        "SELECT section_tokens, memory_tokens, json FROM section WHERE session = ?"
        " ORDER BY id DESC LIMIT 1",
        (session,),
    ).fetchone()
