"""The log of what was said: appended to, read from, never rewritten."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime

from mcp_compaction.errors import LogMoved
from mcp_compaction.formats.identity import content_hash, without_clock
from mcp_compaction.model import Logged, Message, NewMessage
from mcp_compaction.ports import Batch, Original, Placed, Recorded, Scope
from mcp_compaction.store import passages, views
from mcp_compaction.store.align import (
    MESSAGE_COLUMNS,
    Alignment,
    KnownMessage,
    OrderedLog,
    Recognizer,
    align,
    calls_of,
    chain_hash,
    message_rows,
    read_known,
    split_by_content,
    to_message,
)
from mcp_compaction.store.passages import StoredPassage
from mcp_compaction.store.scope import one_session
from mcp_compaction.store.sessions import add_new_events, calibrate, save_mark, session_row
from mcp_compaction.store.sql import Cell, StoredRow, Tx, encodable, encodable_json, stamp, to_json


def append(tx: Tx, session: int, batch: Batch, now: datetime) -> Recorded:
    """Append what is not yet known; known messages keep their numbers.

    A caller keeps a batch to 1,000 messages, so that other processes can write in between.
    """
    row = session_row(tx, session)
    contents = [content_hash(message) for message in batch.messages]
    if batch.placed is not None:
        _check_placed(row, batch.placed)
    known = read_known(tx, row, batch, contents)
    log = _Log(tx, row, batch, known, stamp(now))
    if batch.placed is not None:
        return _append_placed(tx, row, batch, contents, batch.placed, log)
    start = align(known, batch, contents)
    seqs = [*start.known, *log.extend(start, contents)]
    same, changed = split_by_content(seqs, known.contents(seqs), contents)
    if batch.via == "host":
        told = {seq for seq, m in zip(seqs, batch.messages, strict=True) if m.via == "tool"}
        vouch(tx, session, [seq for seq in same if seq not in told])
    leaves = batch.whole and log.new and start.at < known.last
    diverged = start.at + 1 if leaves else next(iter(changed), None)
    _save_beside(tx, batch, log)
    return Recorded(seqs=tuple(seqs), new=log.new, diverged=diverged)


def _check_placed(row: StoredRow, placed: Placed) -> None:
    if row["last_seq"] != placed.newest:
        raise LogMoved("others wrote to this session meanwhile; try again.")
    if placed.view is not None and row["view_version"] != placed.base_version:
        raise LogMoved("the view of this session has changed meanwhile; try again.")


def _append_placed(
    tx: Tx, row: StoredRow, batch: Batch, contents: list[str], placed: Placed, log: _Log
) -> Recorded:
    """Append a batch that was laid beside the log, and show the view that comes of it."""
    session: int = row["id"]
    if placed.view is not None:
        views.put(tx, session, placed.view, placed.base_version + 1)
    seqs = log.append_all(contents, placed)
    if batch.via == "host":
        vouch(tx, session, placed.same)
    if batch.calibration is not None and row["view_version"] == placed.base_version:
        counted, reported = batch.calibration.counted, batch.calibration.reported
        calibrate(tx, session, counted, reported)
    _save_beside(tx, batch, log)
    return Recorded(seqs=tuple(seqs), new=log.new)


def _save_beside(tx: Tx, batch: Batch, log: _Log) -> None:
    """Save all that came beside the messages of a batch, and where the log ends now."""
    if _save_sections(tx, log.session, batch, log.now) or log.new:
        log.save_end()
    add_new_events(tx, log.session, batch.events)
    if batch.mark is not None:
        save_mark(tx, log.session, batch.mark)


def history(tx: Tx, session: int) -> tuple[Logged, ...]:
    """All messages of a session by their identity, in order."""
    rows = tx.execute(
        "SELECT seq, role, content, host_id, coalesce(at, recorded), tokens FROM message"
        " WHERE session = ? ORDER BY seq",
        (session,),
    )
    return tuple(Logged(*row) for row in rows)


def hearsay(tx: Tx, session: int) -> tuple[Message, ...]:
    """The messages in the user's role that only somebody else told of."""
    rows = tx.execute(
        f"SELECT {MESSAGE_COLUMNS} FROM message WHERE session = ? AND via = 'tool'"
        " AND role = 'user' ORDER BY seq",
        (session,),
    )
    return tuple(map(to_message, rows))


def vouch(tx: Tx, session: int, seqs: Sequence[int]) -> None:
    """Note that the host itself said these too, not only an agent."""
    if not seqs:
        return
    tx.execute(
        "UPDATE message SET via = 'host' WHERE session = ? AND via = 'tool'"
        " AND seq IN (SELECT value FROM json_each(?))",
        (session, json.dumps(list(seqs))),
    )


def originals(
    tx: Tx, scope: Scope, seqs: Sequence[int], after: int, limit: int
) -> tuple[Original, ...]:
    """Messages of one session by number, or those after a number."""
    session = one_session(tx, scope)
    name = session_row(tx, session)["name"]
    if seqs:
        rows = message_rows(tx, session, seqs)[:limit]
    else:
        rows = tx.execute(
            f"SELECT {MESSAGE_COLUMNS} FROM message WHERE session = ? AND seq > ?"
            " ORDER BY seq LIMIT ?",
            (session, after, limit),
        ).fetchall()
    return tuple(Original(session=name, message=to_message(row)) for row in rows)


def count_answers(tx: Tx, session: int) -> int:
    """How often the model has answered in that session."""
    query = "SELECT count(*) FROM message WHERE session = ? AND role = 'assistant'"
    (number,) = tx.execute(query, (session,)).fetchone()
    return number


def messages_of_calls(tx: Tx, scope: Scope, calls: Sequence[str]) -> tuple[tuple[int, ...], ...]:
    """The messages of one session with each tool call and its result, by the call's id."""
    session = one_session(tx, scope)
    return tuple(_messages_of(tx, session, call) for call in calls)


def _messages_of(tx: Tx, session: int, call: str) -> tuple[int, ...]:
    rows = tx.execute(
        "SELECT seq FROM call_message WHERE session = ? AND call = ? ORDER BY seq",
        (session, encodable(call)),
    )
    seqs = tuple(seq for (seq,) in rows)
    first = map(to_message, message_rows(tx, session, seqs[:1]))
    if any(made.id == call for message in first for made in message.calls):
        return seqs
    return _scan_for_call(tx, session, call)


def _scan_for_call(tx: Tx, session: int, call: str) -> tuple[int, ...]:
    """The messages with a call that was made before schema 7 noted which they are.

    The session is read through: 0.16 s for 100,000 messages of 600 bytes.
    """
    known = tx.execute(
        "SELECT 1 FROM tool_call WHERE session = ? AND call = ?", (session, encodable(call))
    ).fetchone()
    if known is None:
        return ()
    # LIKE beats instr; what its wildcards match besides is left out below.
    rows = tx.execute(
        f"SELECT {MESSAGE_COLUMNS} FROM message WHERE session = ? AND raw LIKE ? ORDER BY seq",
        (session, f"%{json.dumps(call)}%"),
    )
    return tuple(message.seq for message in map(to_message, rows) if _has_call(message, call))


def _has_call(message: Message, call: str) -> bool:
    return call in (*(c.id for c in message.calls), *(r.call for r in message.results))


class _Log:
    """The end of one session's log while a batch is appended to it.

    Messages are kept together at the end, or one by one where the known ones are looked up.
    """

    def __init__(self, tx: Tx, row: StoredRow, batch: Batch, known: OrderedLog, now: str) -> None:
        self._tx = tx
        self.session: int = row["id"]
        self.now = now
        self.new = 0
        self._project: str = row["project"]
        self._seq: int = row["last_seq"]
        self._chain: str = row["last_chain"]
        self._last_moment: str = row["updated"]
        self._batch = batch
        self._known = known
        self._tools = _read_tools(tx, self.session, batch)
        self._rows: dict[int, list[Cell]] = {}
        self._made: dict[str, str] = {}
        self._calls: dict[tuple[str, int], None] = {}
        self._passages: list[StoredPassage] = []

    def extend(self, start: Alignment, contents: list[str]) -> list[int]:
        """Append what follows the known start; numbers of all of it, in order."""
        seqs: list[int] = []
        skip = len(start.known)
        branch = start.at if self._batch.whole and start.at < self._known.last else None
        recognizer = Recognizer(self._known, self._batch, self._last_moment)
        for place, message in enumerate(self._batch.messages[skip:], start=skip):
            found = recognizer.find(place, contents[place])
            if found is None:
                self._append(message, contents[place], branch)
                branch = None
            elif found.is_to_name and message.host_id is not None:
                at = None if message.at is None else stamp(message.at)
                self._name(found.seq, encodable(message.host_id), at)
            seqs.append(found.seq if found is not None else self._seq)
            recognizer.add(message, seqs[-1])
        self._save()
        return seqs

    def append_all(self, contents: list[str], placed: Placed) -> list[int]:
        """Append a batch whose place is known; the numbers of its messages."""
        seqs: list[int] = []
        for message, content, follows in zip(
            self._batch.messages, contents, placed.follows, strict=True
        ):
            if self._known.by_host_id(message.host_id) is not None:  # an id names one message
                message = message.model_copy(update={"host_id": None})
            self._append(message, content, None if follows == self._seq else follows)
            seqs.append(self._seq)
        self._save()
        return seqs

    def _name(self, seq: int, host_id: str, at: str | None) -> None:
        """Give a message the id that its host tells later."""
        self._known.name(seq, host_id)
        if seq in self._rows:
            self._rows[seq][_HOST_ID] = host_id
            return
        self._tx.execute(
            "UPDATE message SET host_id = ?, at = coalesce(at, ?) WHERE session = ? AND seq = ?",
            (host_id, at, self.session, seq),
        )

    def _append(self, message: NewMessage, content: str, follows: int | None) -> None:
        self._seq += 1
        self._chain = chain_hash(self._chain, content)
        self.new += 1
        at = None if message.at is None else stamp(message.at)
        host_id = None if message.host_id is None else encodable(message.host_id)
        via = message.via or self._batch.via
        self._rows[self._seq] = [
            *(self.session, self._seq, host_id, follows, message.role, message.shape, content),
            *(self._chain, at, self.now, message.tokens, self._batch.counter, via),
            *(message.speaker, encodable_json(message.raw)),
        ]
        self._known.add(KnownMessage(self._seq, follows, content, host_id, via))
        tools = self._note_tools(message)
        self._passages += [
            StoredPassage(
                *(self.session, self._project, "m", self._seq, ordinal, by),
                *(at or self.now, tools, text),
            )
            for ordinal, (by, text) in enumerate(message.passages)
        ]
        if self._known.is_looked_up:
            self._save()

    def _note_tools(self, message: NewMessage) -> tuple[str, ...]:
        """The tools a message calls or answers for."""
        names: list[str] = []
        for part in message.parts:
            if part.kind == "call":
                call = encodable(part.id)
                self._made[call] = self._tools[call] = encodable(part.name)
                names.append(part.name)
            elif part.kind == "result":
                call = encodable(part.call)
                names += [self._tools[call]] if call in self._tools else []
            else:
                continue
            self._calls[call, self._seq] = None
            self._known.add_call(call, message.role, self._seq)
        return tuple(names)

    def _save(self) -> None:
        """Write what was appended and is not yet written."""
        self._tx.executemany(_INSERT, self._rows.values())
        self._tx.executemany(
            "INSERT INTO tool_call (session, call, tool) VALUES (?, ?, ?)"
            " ON CONFLICT (session, call) DO UPDATE SET tool = excluded.tool",
            [(self.session, *made) for made in self._made.items()],
        )
        self._tx.executemany(
            "INSERT INTO call_message (session, call, seq) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
            [(self.session, *call) for call in self._calls],
        )
        passages.insert(self._tx, self._passages)
        for written in (self._rows, self._made, self._calls, self._passages):
            written.clear()

    def save_end(self) -> None:
        """Note in the session where its log ends now."""
        self._tx.execute(
            "UPDATE session SET last_seq = ?, last_chain = ?, updated = ? WHERE id = ?",
            (self._seq, self._chain, max(self._last_moment, self._last_used()), self.session),
        )

    def _last_used(self) -> str:
        """The moment of the newest message where a transcript tells it, else now."""
        told = [stamp(message.at) for message in self._batch.messages if message.at is not None]
        return min(self.now, max(told)) if self._batch.has_ids and told else self.now


_HOST_ID = 2  # its place in a row
_INSERT = (
    "INSERT INTO message (session, seq, host_id, follows, role, shape, content, chain, at,"
    " recorded, tokens, counter, via, speaker, raw)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


def _read_tools(tx: Tx, session: int, batch: Batch) -> dict[str, str]:
    """The tools of the calls that a batch answers, as far as they were made before."""
    calls = {encodable(call) for message in batch.messages for call in calls_of(message)}
    if not calls:
        return {}
    rows = tx.execute(
        "SELECT call, tool FROM tool_call WHERE session = ?"
        " AND call IN (SELECT value FROM json_each(?))",
        (session, json.dumps(sorted(calls))),
    )
    return dict(rows)


def _save_sections(tx: Tx, session: int, batch: Batch, now: str) -> bool:
    if batch.sections is None:
        return False
    given = (batch.section_tokens, batch.memory_tokens, to_json(batch.sections))
    latest = section_row(tx, session)
    if latest is not None and tuple(latest) == given:
        return False
    if latest is not None and without_clock(latest["json"]) == without_clock(given[-1]):
        # A clock in a system prompt would leave a row with each request.
        tx.execute(
            "UPDATE section SET section_tokens = ?, memory_tokens = ?, json = ?"
            " WHERE id = (SELECT max(id) FROM section WHERE session = ?)",
            (*given, session),
        )
        return True
    tx.execute(
        "INSERT INTO section (session, at, section_tokens, memory_tokens, json)"
        " VALUES (?, ?, ?, ?, ?)",
        (session, now, *given),
    )
    return True


def section_row(tx: Tx, session: int) -> StoredRow | None:
    """The newest sections of a session with their counts."""
    return tx.execute(
        "SELECT section_tokens, memory_tokens, json FROM section WHERE session = ?"
        " ORDER BY id DESC LIMIT 1",
        (session,),
    ).fetchone()
