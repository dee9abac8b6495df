"""What an earlier version recorded twice: it stays in the log, and stands in its window once.

A message is a double where it would be recognized if the host's transcript came only now.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from mcp_compaction.core.text.refs import runs_of
from mcp_compaction.core.window.history import is_in
from mcp_compaction.formats.identity import words_in
from mcp_compaction.model import Event, Message, NewMessage, View
from mcp_compaction.ports import HOST_COMPACTED, Batch
from mcp_compaction.store import views
from mcp_compaction.store.align import CLOCKS, MESSAGE_COLUMNS, MOST_UNNAMED, Recognizer, to_message
from mcp_compaction.store.load import list_shown
from mcp_compaction.store.sql import stamp

_PER_MESSAGE = 4  # tokens that providers add to each


class LoggedMessage(NamedTuple):
    """A message of a log, and by what it is known."""

    message: Message
    host_id: str | None
    content: str
    recorded: str


def leave_out(connection: sqlite3.Connection, sessions: Sequence[int]) -> None:
    """Take the doubles of some sessions out of their windows, where what they hold is shown."""
    for session in sessions:
        twins = find_doubles(*_read_log(connection, session))
        if twins:
            _leave_out(connection, session, twins)


def find_doubles(log: Sequence[LoggedMessage], compacted: Sequence[Event]) -> dict[int, int]:
    """The numbers of the messages that say what others of their log say, with those of the others.

    `compacted`: the host's own compactions. What a host has not told of yet is no double.
    """
    twins = _find_twins(log, compacted)
    more = twins
    while more:  # what was recorded a third time
        more = _find_twins([one for one in log if one.message.seq not in twins], compacted)
        if len(more) == 1:  # one equal message alone is a message of its own
            break
        twins |= more
    return twins


def _find_twins(log: Sequence[LoggedMessage], compacted: Sequence[Event]) -> dict[int, int]:
    named = [one for one in log if one.host_id is not None]
    told = [one.message.at for one in named]
    newest = max((at for at in told if at is not None), default=None)
    unnamed = [one for one in log if one.host_id is None]
    if newest is not None:
        unnamed = [one for one in unnamed if one.recorded <= stamp(newest + CLOCKS)]
    earlier = _Earlier(unnamed)
    batch = Batch(
        messages=tuple(map(_as_new, named)), counter="", has_ids=True, events=tuple(compacted)
    )
    recognizer = Recognizer(earlier, batch, "")
    twins: dict[int, int] = {}
    saying: dict[int, list[Message]] = {}  # what says the same as a message without an id
    for place, one in enumerate(named):
        found = recognizer.find(place, one.content)
        if found is not None and found.seq not in earlier.unnamed_by_seq:
            twins[one.message.seq] = found.seq
            continue
        if found is not None:
            saying.setdefault(found.seq, []).append(one.message)
        recognizer.add(batch.messages[place], one.message.seq)
        earlier.add(one)
    for seq, others in saying.items():
        words = {word for other in others for word in words_in(other)}
        if words.issuperset(words_in(earlier.unnamed_by_seq[seq])):
            twins[seq] = others[0].seq
    return twins


class _Earlier:
    """What stood in a log before the message that is looked at."""

    def __init__(self, unnamed: Sequence[LoggedMessage]) -> None:
        self._unnamed = [(one.recorded, one.message) for one in unnamed][-MOST_UNNAMED:]
        self.unnamed_by_seq = {message.seq: message for _, message in self._unnamed}
        self._by_content: dict[tuple[str, bool], int] = {}
        self._by_call: dict[tuple[str, str], int] = {}

    def add(self, one: LoggedMessage) -> None:
        """Know one message more."""
        message = one.message
        self._by_content[one.content, False] = message.seq
        if message.via == "host":
            self._by_content[one.content, True] = message.seq
        calls = [part.id for part in message.calls] + [part.call for part in message.results]
        self._by_call |= {(call, message.role): message.seq for call in calls}

    def by_host_id(self, host_id: str | None) -> int | None:
        """None: an id names one message."""

    def by_content(self, content: str, *, is_hosts: bool) -> int | None:
        """The number of the newest message of that content; `is_hosts`: that is a host's word."""
        return self._by_content.get((content, is_hosts))

    def by_call(self, call: str, role: str) -> int | None:
        """The number of the newest message of that role that makes or answers a call."""
        return self._by_call.get((call, role))

    def at_moment(self, moment: str) -> Sequence[Message]:
        """None: the recognizer knows those that it was given."""
        return ()

    def unnamed(self, since: datetime | None) -> Sequence[tuple[str, Message]]:
        """The newest messages without a host's id that were recorded since a moment, and when."""
        return [one for one in self._unnamed if since is None or one[0] >= stamp(since)]

    def compacted(self) -> Sequence[datetime]:
        """None: the batch has the events."""
        return ()


def _as_new(one: LoggedMessage) -> NewMessage:
    message = one.message
    return NewMessage(
        role=message.role,
        parts=message.parts,
        shape=message.shape,
        raw=message.raw,
        normal="",
        host_id=one.host_id,
        at=message.at,
        via=message.via,
    )


def _read_log(
    connection: sqlite3.Connection, session: int
) -> tuple[list[LoggedMessage], list[Event]]:
    """The log of a session, and the host's own compactions of it."""
    rows = connection.execute(
        f"SELECT {MESSAGE_COLUMNS}, host_id, content, recorded FROM message"
        " WHERE session = ? ORDER BY seq",
        (session,),
    )
    log = [LoggedMessage(to_message(row[:-3]), *row[-3:]) for row in rows]
    events = connection.execute(
        "SELECT at FROM event WHERE session = ? AND name = ?", (session, HOST_COMPACTED)
    )
    return log, [Event(name=HOST_COMPACTED, at=at, detail="") for (at,) in events]


def _leave_out(connection: sqlite3.Connection, session: int, twins: Mapping[int, int]) -> None:
    """Take doubles out of the newest view, and of what the window held when it was reported."""
    version, last = connection.execute(
        "SELECT view_version, last_seq FROM session WHERE id = ?", (session,)
    ).fetchone()
    view = views.view(connection, session, version)
    shown = _list_messages_shown(view, last)
    left = {seq for seq, twin in twins.items() if seq in shown and twin in shown} - _held(view)
    if not left:
        return
    gone = {seq for first, end in view.gone for seq in range(first, end + 1)}
    once = {
        "head": tuple(one for one in view.head if one.seq not in left),
        "body": tuple(one for one in view.body if one.kind == "digested" or one.seq not in left),
        "since": tuple(one for one in view.since if one.seq not in left),
        "gone": runs_of(gone | left),
    }
    views.put(connection, session, view.model_copy(update=once), version + 1)
    connection.execute(
        "UPDATE session SET counted = max(1, counted - (SELECT sum(tokens + ?) FROM message"
        " WHERE message.session = session.id AND seq IN (SELECT value FROM json_each(?))))"
        " WHERE id = ? AND reported > 0",
        (_PER_MESSAGE, str(sorted(left)), session),
    )


def _list_messages_shown(view: View, last: int) -> set[int]:
    """The messages up to the newest that a view shows."""
    shown = list_shown(view)
    since = {seq for seq in range(view.upto + 1, last + 1) if not is_in(view.gone, seq)}
    return since.union(shown.kept, (entry.seq for entry in shown.trimmed))


def _held(view: View) -> set[int]:
    """The messages that a view names beside its entries."""
    words = {seq for one in view.reworded for seq in (one.seq, one.words)}
    return words | {one.seq for one in view.taken} | {one.after for one in view.late_pins}
