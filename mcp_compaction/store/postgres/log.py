"""The log of what was said: appended to, read from, never rewritten."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from mcp_compaction.errors import LogMoved
from mcp_compaction.formats.identity import content_hash, without_clock
from mcp_compaction.model import Logged, Message, NewMessage
from mcp_compaction.ports import Batch, Original, Placed, Recorded, Scope
from mcp_compaction.store.align import (
    Alignment,
    Recognizer,
    align,
    chain_hash,
    split_by_content,
)
from mcp_compaction.store.columns import encodable_json, stamp, to_json
from mcp_compaction.store.passages import StoredPassage
from mcp_compaction.store.postgres import passages, views
from mcp_compaction.store.postgres.database import Row, Tx, plain
from mcp_compaction.store.postgres.known import KnownMessage, KnownOfBatch, calls_of, read_known
from mcp_compaction.store.postgres.messages import MESSAGE_COLUMNS, read_messages, to_message
from mcp_compaction.store.postgres.sessions import (
    add_new_events,
    calibrate,
    one_session,
    save_mark,
    session_row,
)


def append(tx: Tx, session: int, batch: Batch, now: datetime) -> Recorded:
    """Append what is not yet known; known messages keep their numbers."""
    row = session_row(tx, session, to_write=True)
    contents = [content_hash(one) for one in batch.messages]
    if batch.placed is not None:
        _check_placed(row, batch.placed)
    known = read_known(tx, row, batch, contents)
    log = _Log(row, batch, known, stamp(now))
    log.tools = _read_tools(tx, session, batch)
    if batch.placed is not None:
        return _append_placed(tx, row, batch, contents, batch.placed, log)
    start = align(known, batch, contents)
    seqs = [*start.known, *log.extend(start, contents)]
    log.save(tx)
    same, changed = split_by_content(seqs, known.contents(seqs), contents)
    if batch.via == "host":
        told = {seq for seq, m in zip(seqs, batch.messages, strict=True) if m.via == "tool"}
        vouch(tx, session, [seq for seq in same if seq not in told])
    leaves = batch.whole and log.new and start.at < row["last_seq"]
    diverged = start.at + 1 if leaves else next(iter(changed), None)
    _save_beside(tx, batch, log)
    return Recorded(seqs=tuple(seqs), new=log.new, diverged=diverged)


def _check_placed(row: Row, placed: Placed) -> None:
    if row["last_seq"] != placed.newest:
        raise LogMoved("others wrote to this session meanwhile; try again.")
    if placed.view is not None and row["view_version"] != placed.base_version:
        raise LogMoved("the view of this session has changed meanwhile; try again.")


def _append_placed(
    tx: Tx, row: Row, batch: Batch, contents: list[str], placed: Placed, log: _Log
) -> Recorded:
    """Append a batch that was laid beside the log, and show the view that comes of it."""
    session: int = row["id"]
    if placed.view is not None:
        views.put(tx, session, placed.view, placed.base_version + 1)
    seqs = log.append_all(contents, placed)
    log.save(tx)
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
        log.save_end(tx)
    add_new_events(tx, log.session, batch.events)
    if batch.mark is not None:
        save_mark(tx, log.session, batch.mark)


def _read_tools(tx: Tx, session: int, batch: Batch) -> dict[str, str]:
    """The tools of the calls that a batch answers, as far as they were made before."""
    calls = {plain(call) for message in batch.messages for call in calls_of(message)}
    if not calls:
        return {}
    rows = tx.all(
        "SELECT call, tool FROM tool_call WHERE owner = %(owner)s AND session = %(session)s"
        " AND call = ANY(%(calls)s)",
        session=session,
        calls=sorted(calls),
    )
    return {row["call"]: row["tool"] for row in rows}


class _Log:
    """The end of one session's log while a batch is appended to it; nothing is written before
    `save`."""

    def __init__(self, row: Row, batch: Batch, known: KnownOfBatch, now: str) -> None:
        self.session: int = row["id"]
        self.now = now
        self.tools: dict[str, str] = {}
        self._project: str = row["project"]
        self._seq: int = row["last_seq"]
        self._first_new = self._seq + 1
        self._chain: str = row["last_chain"]
        self._last_moment: str = row["updated"]
        self._batch = batch
        self._known = known
        self._rows: list[tuple[Any, ...]] = []
        self._named: dict[int, tuple[str, str | None]] = {}  # ids and moments
        self._made: dict[str, str] = {}
        self._calls: dict[tuple[str, int], None] = {}
        self._passages: list[StoredPassage] = []

    @property
    def new(self) -> int:
        """How many messages were appended."""
        return len(self._rows)

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
                self._named[found.seq] = plain(message.host_id), at
                self._known.name(found.seq, plain(message.host_id))
            seqs.append(found.seq if found is not None else self._seq)
            recognizer.add(message, seqs[-1])
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
        return seqs

    def _append(self, message: NewMessage, content: str, follows: int | None) -> None:
        self._seq += 1
        self._chain = chain_hash(self._chain, content)
        at = None if message.at is None else stamp(message.at)
        host_id = None if message.host_id is None else plain(message.host_id)
        via = message.via or self._batch.via
        self._rows.append(
            (
                *(self._seq, follows, message.role, message.shape, host_id, content, self._chain),
                *(at, message.tokens, via, message.speaker, encodable_json(message.raw).encode()),
            )
        )
        self._known.add(KnownMessage(self._seq, follows, content, host_id, via))
        tools = self._note_tools(message)
        self._passages += [
            StoredPassage(
                *(self.session, self._project, "m", self._seq, ordinal, by),
                *(at or self.now, tools, text),
            )
            for ordinal, (by, text) in enumerate(message.passages)
        ]

    def _note_tools(self, message: NewMessage) -> tuple[str, ...]:
        """The tools a message calls or answers for."""
        names: list[str] = []
        for part in message.parts:
            if part.kind == "call":
                self._calls[plain(part.id), self._seq] = None
                self._made[plain(part.id)] = self.tools[plain(part.id)] = plain(part.name)
                self._known.add_call(plain(part.id), message.role, self._seq)
                names.append(part.name)
            elif part.kind == "result":
                self._calls[plain(part.call), self._seq] = None
                self._known.add_call(plain(part.call), message.role, self._seq)
                tool = self.tools.get(plain(part.call))
                names += [] if tool is None else [tool]
        return tuple(names)

    def save(self, tx: Tx) -> None:
        """Write all that was appended."""
        for seq, (host_id, at) in self._named.items():
            if seq < self._first_new:
                tx.run(
                    "UPDATE message SET host_id = %(host_id)s, at = coalesce(at, %(at)s)"
                    " WHERE owner = %(owner)s AND session = %(session)s AND seq = %(seq)s",
                    host_id=host_id,
                    at=at,
                    session=self.session,
                    seq=seq,
                )
        if not self._rows:
            return
        named = [
            (*row[:4], self._named.get(row[0], (row[4],))[0], *row[5:]) for row in self._rows
        ]  # a message of this very batch may have got its id later
        columns = [list(column) for column in zip(*named, strict=True)]
        names = [
            "seqs",
            "follows",
            "roles",
            "shapes",
            "ids",
            "contents",
            "chains",
            "ats",
            "tokens",
            "vias",
            "speakers",
            "raws",
        ]
        tx.run(
            _INSERT,
            **dict(zip(names, columns, strict=True)),
            session=self.session,
            now=self.now,
            counter=plain(self._batch.counter),
        )
        self._save_calls(tx)
        passages.insert(tx, self._passages)

    def _save_calls(self, tx: Tx) -> None:
        if self._made:
            tx.run(
                "INSERT INTO tool_call (owner, session, call, tool)"
                " SELECT %(owner)s, %(session)s, * FROM unnest(%(calls)s::text[],"
                " %(tools)s::text[])"
                " ON CONFLICT (owner, session, call) DO UPDATE SET tool = excluded.tool",
                session=self.session,
                calls=list(self._made),
                tools=list(self._made.values()),
            )
        if self._calls:
            tx.run(
                "INSERT INTO call_message (owner, session, call, seq)"
                " SELECT %(owner)s, %(session)s, * FROM unnest(%(calls)s::text[],"
                " %(seqs)s::bigint[]) ON CONFLICT DO NOTHING",
                session=self.session,
                calls=[call for call, _ in self._calls],
                seqs=[seq for _, seq in self._calls],
            )

    def save_end(self, tx: Tx) -> None:
        """Note in the session where its log ends now."""
        tx.run(
            "UPDATE session SET last_seq = %(seq)s, last_chain = %(chain)s,"
            " updated = greatest(updated, %(used)s) WHERE owner = %(owner)s AND id = %(session)s",
            seq=self._seq,
            chain=self._chain,
            used=self._last_used(),
            session=self.session,
        )

    def _last_used(self) -> str:
        """The moment of the newest message where a transcript tells it, else now."""
        told = [stamp(message.at) for message in self._batch.messages if message.at is not None]
        return min(self.now, max(told)) if self._batch.has_ids and told else self.now


_INSERT = """
    INSERT INTO message (
        owner, session, seq, follows, role, shape, host_id, content, chain, at, recorded, tokens,
        counter, via, speaker, raw
    )
    SELECT %(owner)s, %(session)s, seq, follows, role, shape, host_id, content, chain, at, %(now)s,
        tokens, %(counter)s, via, speaker, raw
    FROM unnest(
        %(seqs)s::bigint[], %(follows)s::bigint[], %(roles)s::text[], %(shapes)s::text[],
        %(ids)s::text[], %(contents)s::text[], %(chains)s::text[], %(ats)s::text[],
        %(tokens)s::bigint[], %(vias)s::text[], %(speakers)s::text[], %(raws)s::bytea[]
    ) AS given (
        seq, follows, role, shape, host_id, content, chain, at, tokens, via, speaker, raw
    )
"""


def _save_sections(tx: Tx, session: int, batch: Batch, now: str) -> bool:
    if batch.sections is None:
        return False
    text = to_json(batch.sections)
    given: dict[str, object] = {
        "section_tokens": batch.section_tokens,
        "memory_tokens": batch.memory_tokens,
        "json": text,
    }
    latest = section_row(tx, session)
    if latest is not None and all(latest[name] == value for name, value in given.items()):
        return False
    if latest is not None and without_clock(latest["json"]) == without_clock(text):
        # A clock in a system prompt would leave a row with each request.
        tx.run(
            "UPDATE section SET section_tokens = %(section_tokens)s,"
            " memory_tokens = %(memory_tokens)s, json = %(json)s WHERE owner = %(owner)s"
            " AND session = %(session)s AND number = %(number)s",
            **given,
            session=session,
            number=latest["number"],
        )
        return True
    tx.run(
        "INSERT INTO section (owner, session, number, at, section_tokens, memory_tokens, json)"
        " VALUES (%(owner)s, %(session)s, %(number)s, %(now)s, %(section_tokens)s,"
        " %(memory_tokens)s, %(json)s)",
        **given,
        session=session,
        number=1 if latest is None else latest["number"] + 1,
        now=now,
    )
    return True


def section_row(tx: Tx, session: int) -> Row | None:
    """The newest sections of a session with their counts."""
    return tx.one(
        "SELECT number, section_tokens, memory_tokens, json FROM section WHERE owner = %(owner)s"
        " AND session = %(session)s ORDER BY number DESC LIMIT 1",
        session=session,
    )


def history(tx: Tx, session: int) -> tuple[Logged, ...]:
    """All messages of a session by their identity, in order."""
    rows = tx.all(
        "SELECT seq, role, content, host_id FROM message WHERE owner = %(owner)s"
        " AND session = %(session)s ORDER BY seq",
        session=session,
    )
    return tuple(Logged(row["seq"], row["role"], row["content"], row["host_id"]) for row in rows)


def hearsay(tx: Tx, session: int) -> tuple[Message, ...]:
    """The messages in the user's role that only somebody else told of."""
    rows = tx.all(
        f"SELECT {MESSAGE_COLUMNS} FROM message WHERE owner = %(owner)s"
        " AND session = %(session)s AND via = 'tool' AND role = 'user' ORDER BY seq",
        session=session,
    )
    return tuple(map(to_message, rows))


def vouch(tx: Tx, session: int, seqs: Sequence[int]) -> None:
    """Note that the host itself said these too, not only an agent."""
    if seqs:
        tx.run(
            "UPDATE message SET via = 'host' WHERE owner = %(owner)s AND session = %(session)s"
            " AND via = 'tool' AND seq = ANY(%(seqs)s)",
            session=session,
            seqs=list(seqs),
        )


def originals(
    tx: Tx, scope: Scope, seqs: Sequence[int], after: int, limit: int
) -> tuple[Original, ...]:
    """Messages of one session by number, or those after a number."""
    session = one_session(tx, scope)
    name = session_row(tx, session)["name"]
    if seqs:
        messages = read_messages(tx, session, seqs)[:limit]
    else:
        rows = tx.all(
            f"SELECT {MESSAGE_COLUMNS} FROM message WHERE owner = %(owner)s"
            " AND session = %(session)s AND seq > %(after)s ORDER BY seq LIMIT %(limit)s",
            session=session,
            after=after,
            limit=limit,
        )
        messages = [to_message(row) for row in rows]
    return tuple(Original(session=name, message=message) for message in messages)


def count_answers(tx: Tx, session: int) -> int:
    """How often the model has answered in that session."""
    row = tx.one(
        "SELECT count(*) AS answers FROM message WHERE owner = %(owner)s"
        " AND session = %(session)s AND role = 'assistant'",
        session=session,
    )
    return 0 if row is None else row["answers"]


def messages_of_calls(tx: Tx, scope: Scope, calls: Sequence[str]) -> tuple[tuple[int, ...], ...]:
    """The messages of one session with each tool call and its result, by the call's id."""
    session = one_session(tx, scope)
    rows = tx.all(
        "SELECT call, seq FROM call_message WHERE owner = %(owner)s AND session = %(session)s"
        " AND call = ANY(%(calls)s) ORDER BY seq",
        session=session,
        calls=[plain(call) for call in calls],
    )
    made = tx.all(
        "SELECT call FROM tool_call WHERE owner = %(owner)s AND session = %(session)s"
        " AND call = ANY(%(calls)s)",
        session=session,
        calls=[plain(call) for call in calls],
    )
    known = {row["call"] for row in made}
    seqs: dict[str, list[int]] = {}
    for row in rows:
        seqs.setdefault(row["call"], []).append(row["seq"])
    return tuple(tuple(seqs.get(plain(call), ())) if plain(call) in known else () for call in calls)
