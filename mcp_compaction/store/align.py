"""The alignment of a batch: which messages are known already, and where the new ones go.

The same message is the same host id, else the same content after the same message. A second
"continue" is therefore not dropped, and a moved cache mark makes no duplicate. Other content under
a known host id does not replace what is known, but it is reported. Where a batch says that all its
messages have host ids, the same words are the same message only where they came without an id
before, or where the host has compacted and has written them down once more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import singledispatch
from typing import Any, NamedTuple, Protocol

from mcp_compaction import formats
from mcp_compaction.core.log.alignment import find_pairs
from mcp_compaction.core.text.host_texts import without_host_texts
from mcp_compaction.errors import InputError, UnknownRef
from mcp_compaction.formats.identity import hash_of, words_in
from mcp_compaction.model import Message, NewMessage
from mcp_compaction.ports import HOST_COMPACTED, Batch
from mcp_compaction.store.sessions import events
from mcp_compaction.store.sql import StoredRow, Tx, encodable, moment, stamp

MESSAGE_COLUMNS = "seq, role, shape, at, tokens, via, speaker, raw"

MOST_UNNAMED = 1000  # messages without an id that are compared with a batch
CLOCKS = timedelta(seconds=10)  # that a host may note its words after they passed elsewhere
_BUILDING = timedelta(milliseconds=50)  # within which a host writes down what it compacts to


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


class KnownMessage(NamedTuple):
    """A recorded message by its identity."""

    seq: int
    follows: int | None
    content: str
    host_id: str | None
    via: str


class KnownLog(Protocol):
    """The recorded messages of one session, as far as a message is recognized by them."""

    def by_host_id(self, host_id: str | None) -> int | None:
        """The number of the message with that host id."""
        ...

    def by_content(self, content: str, *, is_hosts: bool) -> int | None:
        """The number of the newest message of that content; `is_hosts`: that is a host's word."""
        ...

    def by_call(self, call: str, role: str) -> int | None:
        """The number of the newest message of that role that makes or answers a call."""
        ...

    def at_moment(self, moment: str) -> Sequence[Message]:
        """The messages that a host says were said at a moment."""
        ...

    def unnamed(self, since: datetime | None) -> Sequence[tuple[str, Message]]:
        """The newest messages without a host's id that were recorded since a moment, and when."""
        ...

    def compacted(self) -> Sequence[datetime]:
        """When the host has compacted the session."""
        ...


class OrderedLog(KnownLog, Protocol):
    """The same, as far as a place for a batch depends on them."""

    last: int
    is_looked_up: bool  # each for itself, so that what is new has to be there

    def add(self, message: KnownMessage, /) -> None:
        """Know one message more."""
        ...

    def add_call(self, call: str, role: str, seq: int, /) -> None:
        """Know that a message makes or answers a call."""
        ...

    def name(self, seq: int, host_id: str, /) -> None:
        """Know a message by the id that its host gave it later."""
        ...

    def contents(self, seqs: list[int], /) -> dict[int, str]:
        """The contents of the messages with these numbers."""
        ...

    def after(self, seq: int, content: str) -> int | None:
        """The number of the message of that content that was said after message `seq`."""
        ...

    def newest(self, limit: int) -> list[str]:
        """The contents of the newest messages, oldest first."""
        ...


class Recognized(NamedTuple):
    """A message of the log that a message of a batch is."""

    seq: int
    is_to_name: bool = False  # it came before its host's id did


class Recognizer:
    """Tells which messages of a batch the log has, whichever way brought them there."""

    def __init__(self, known: KnownLog, batch: Batch, last_moment: str) -> None:
        self._known = known
        self._batch = batch
        self._last_moment = last_moment  # at which the session was used
        self._moments = [e.at for e in batch.events if e.name == HOST_COMPACTED]
        self._new: dict[str, list[tuple[NewMessage | Message, int]]] = {}  # by their moments
        self._elsewhere: dict[int, Recognized] = {}
        if batch.has_ids:
            self._moments += known.compacted()
            self._elsewhere = self._find_elsewhere()

    def add(self, message: NewMessage, seq: int) -> None:
        """Know the number of a message of the batch."""
        if message.at is not None:
            self._new.setdefault(stamp(message.at), []).append((message, seq))

    def find(self, place: int, content: str) -> Recognized | None:
        """What a message of the batch is; None: it is new."""
        message = self._batch.messages[place]
        if seq := self._known.by_host_id(message.host_id):
            return Recognized(seq)
        if seq := self._known.by_host_id(message.early_id):
            return Recognized(seq, is_to_name=True)
        if place in self._elsewhere:
            return self._elsewhere[place]
        seq = self._find_again(message, content) if self._moments else None
        return Recognized(seq) if seq is not None else None

    def _find_elsewhere(self) -> dict[int, Recognized]:
        """The messages that came without an id, by a request or from an agent, by their words. One
        that a provider has may be several of its host."""
        by_id = self._known.by_host_id
        new: dict[int, tuple[str, ...]] = {}
        seen: set[object] = set()  # what is written down once more may be looked for once
        for place, message in enumerate(self._batch.messages):
            words, moment = words_in(message), message.at
            is_again = bool(self._moments and moment) and (moment, words) in seen
            seen.add((moment, words))
            is_named = by_id(message.host_id) is not None or by_id(message.early_id) is not None
            # The store is asked for the moment only of what has no id there.
            if not (is_again or is_named) and self._said_then(message) is None:
                new[place] = words
        told = [self._batch.messages[place].at for place in new]
        moments = [at for at in told if at is not None]
        since = min(moments) - CLOCKS if moments and len(moments) == len(told) else None
        rows = self._known.unnamed(since) if any(new.values()) else ()
        said = [(word, row) for row in rows for word in words_in(row[1])]
        sent = [(word, place) for place, words in new.items() for word in words]
        found: dict[int, list[Message]] = {}
        for i, j in find_pairs([word for word, _ in said], [word for word, _ in sent]):
            (recorded, row), place = said[i][1], sent[j][1]
            at = self._batch.messages[place].at
            if at is None or stamp(at - CLOCKS) <= recorded:
                found.setdefault(place, []).append(row)
        return {
            place: Recognized(rows[0].seq, is_to_name=words_in(rows[0]) == new[place])
            for place, rows in found.items()
            if len(rows) == len(new[place])
        }

    def _find_again(self, message: NewMessage, content: str) -> int | None:
        """The number of a message that its host has written down once more, under a new id.

        Claude Code does so with all that stays in the window when it is compacted from inside: a
        result is the same where its call was answered, all else by its words and its moment.
        """
        results = [part.call for part in message.parts if part.kind == "result"]
        if results and len(results) == len(message.parts):
            found = [self._answer_to(call) for call in results]
            return found[0] if None not in found else None
        if message.at is None:
            return None
        # A summary is of the very moment, what stands for earlier messages a little older.
        built = any(moment - _BUILDING <= message.at < moment for moment in self._moments)
        if built and not _says(message):  # but for what hosts print, people say it again
            return self._known.by_content(content, is_hosts=False)
        if message.via == "tool":  # what stood for it after a compaction: the host built it anew
            seq = self._known.by_content(content, is_hosts=True)
            return seq or self._said_then(message)  # in a subagent's chat all is of this kind
        return self._said_then(message)

    def _said_then(self, message: NewMessage) -> int | None:
        """The number of a message that says the same and is of the same moment."""
        if message.at is None or not self._moments:
            return None
        moment = stamp(message.at)
        known = self._known.at_moment(moment) if moment <= self._last_moment else ()
        said = [(one, one.seq) for one in known] + self._new.get(moment, [])
        # Not by the whole: what the answer has cost is set to nothing.
        same = (seq for one, seq in said if (one.role, one.parts) == (message.role, message.parts))
        return next(same, None)

    def _answer_to(self, call: str) -> int | None:
        """The number of the message that answers a call; None while it waits, as it does where a
        model counts its calls anew."""
        made = self._known.by_call(call, "assistant")
        answer = self._known.by_call(call, "user") or self._known.by_call(call, "tool")
        return answer if answer is not None and (made is None or made < answer) else None


def _says(message: NewMessage) -> bool:
    """Whether anything stands in a message but what a host put there."""
    return any(
        part.kind != "text" or without_host_texts(part.text).strip() for part in message.parts
    )


class KnownMessages:
    """The recorded messages of one session, looked up one at a time."""

    is_looked_up = True

    def __init__(self, tx: Tx, session: int, last: int) -> None:
        self._tx = tx
        self._session = session
        self._moments: dict[str, list[int]] | None = None
        self.last = last

    def add(self, *_: object) -> None:
        """Nothing: what is added is looked up as well."""

    add_call = name = add

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

    def by_content(self, content: str, *, is_hosts: bool) -> int | None:
        """The number of the newest message of that content; `is_hosts`: that is a host's word."""
        return self._read_number(
            "SELECT seq FROM message WHERE session = ? AND content = ? AND (via = 'host' OR NOT ?)"
            " ORDER BY seq DESC LIMIT 1",
            *(self._session, content, is_hosts),
        )

    def by_call(self, call: str, role: str) -> int | None:
        """The number of the newest message of that role that makes or answers a call."""
        return self._read_number(
            "SELECT message.seq FROM call_message JOIN message USING (session, seq)"
            " WHERE session = ? AND call = ? AND role = ? ORDER BY message.seq DESC LIMIT 1",
            *(self._session, encodable(call), role),
        )

    def at_moment(self, moment: str) -> Sequence[Message]:
        """The messages that a host says were said at a moment."""
        if self._moments is None:
            self._moments = {}
            rows = self._tx.execute(
                "SELECT at, seq FROM message WHERE session = ? AND at IS NOT NULL", (self._session,)
            )
            for at, seq in rows:
                self._moments.setdefault(at, []).append(seq)
        found = self._moments.get(moment, [])
        return [*map(to_message, message_rows(self._tx, self._session, found))]

    def unnamed(self, since: datetime | None) -> Sequence[tuple[str, Message]]:
        """The newest messages without a host's id that were recorded since a moment, and when."""
        named = "SELECT count(*) FROM message WHERE session = ? AND host_id IS NOT NULL"
        rows = self._tx.execute(
            f"SELECT {MESSAGE_COLUMNS}, recorded FROM message WHERE session = ?"
            f" AND host_id IS NULL AND recorded >= ? AND ? > ({named}) ORDER BY seq DESC LIMIT ?",
            (self._session, stamp(since) if since else "", self.last, self._session, MOST_UNNAMED),
        ).fetchall()
        return [(row["recorded"], to_message(row[:-1])) for row in reversed(rows)]

    def compacted(self) -> Sequence[datetime]:
        """When the host has compacted the session."""
        return [event.at for event in events(self._tx, self._session, HOST_COMPACTED)]

    def newest(self, limit: int) -> list[str]:
        """The contents of the newest messages, oldest first."""
        rows = self._tx.execute(
            "SELECT content FROM message WHERE session = ? AND seq > ? ORDER BY seq",
            (self._session, self.last - limit),
        )
        return [content for (content,) in rows]

    def contents(self, seqs: list[int]) -> dict[int, str]:
        """The contents of the messages with these numbers."""
        rows = self._tx.execute(
            "SELECT seq, content FROM message WHERE session = ?"
            " AND seq IN (SELECT value FROM json_each(?))",
            (self._session, str(seqs)),
        )
        return dict(rows)

    def _read_number(self, sql: str, *parameters: str | int) -> int | None:
        row = self._tx.execute(sql, parameters).fetchone()
        return None if row is None else row[0]


@singledispatch
def read_known(tx: Tx, session: StoredRow, _batch: Batch, _contents: list[str]) -> OrderedLog:
    """The messages of a session that a batch may mean; each engine has its way to look."""
    return KnownMessages(tx, session["id"], session["last_seq"])


def calls_of(message: NewMessage) -> list[str]:
    """The ids of the calls that a message makes or answers."""
    calls = [part.id for part in message.parts if part.kind == "call"]
    return calls + [part.call for part in message.parts if part.kind == "result"]


def align(known: OrderedLog, batch: Batch, contents: list[str]) -> Alignment:
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


def _align_after(known: OrderedLog, batch: Batch, contents: list[str], after: int) -> Alignment:
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
    known: OrderedLog, messages: tuple[NewMessage, ...], contents: list[str], start: int
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


def _count_overlap(known: OrderedLog, contents: list[str]) -> int:
    newest = known.newest(len(contents))
    # One equal message is no overlap: people do say "continue" twice.
    for length in range(len(newest), 1, -1):
        if newest[-length:] == contents[:length]:
            return length
    return 0
