"""Lists sessions and pins from the store's file alone, for commands that only print them.

Standard library only: the libraries for models and the event loop take longer to load than the
rest of such a command.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from mcp_compaction.errors import CompactionError, StoreError
from mcp_compaction.store.connect import SCHEMA_VERSION, connect, pragma, refuse_remote, store_path
from mcp_compaction.store.scope import Condition, Within, pins_in, project_of, sessions_in
from mcp_compaction.store.sql import StoredRow, Tx, encodable, moment

if TYPE_CHECKING:
    from mcp_compaction.model import PinAuthor

_PATIENCE = 0.5  # seconds
_NOW = "SELECT strftime('%Y-%m-%dT%H:%M:%f', 'now')"
# As in compactor.events.
_PAID = "CONTEXT_BUDGET_GATEWAY_RECEIPT"
_WHAT_TAKES_MORE = (CompactionError, sqlite3.Error, OSError, ValueError)


class SessionLine(NamedTuple):
    """A session as a line shows it."""

    name: str
    project: str
    messages: int
    updated: datetime | None
    origin: tuple[str, ...]  # host, agent and model, where they are known
    paid: str  # what a gateway has told of it
    title: str = ""


class PinLine(NamedTuple):
    """A pin as a line shows it."""

    number: int
    text: str
    kind: str
    scope: str
    author: str
    session: str
    at: datetime | None
    source: str  # the ref that it was said in, where that is known
    expires: datetime | None
    channel: str
    checks: str
    context: str  # what governs words torn out there
    used: datetime | None


class _Place(NamedTuple):
    project: str | None
    session: int | None = None


def list_sessions(home: Path, project: str | None, limit: int) -> list[SessionLine] | None:
    """The sessions of a project, or of all, the newest first; None where it takes more to tell."""
    try:
        with closing(_open(home)) as store:
            rows = session_rows(store, sessions_in(_Place(project)), limit)
            return [_session_of(row, store) for row in rows]
    except _WHAT_TAKES_MORE:
        return None


def list_pins(home: Path, project: str, name: str | None, most: int) -> list[PinLine] | None:
    """The pins in force in one session, or in the newest ones; None where it takes more to tell."""
    try:
        with closing(_open(home)) as store:
            (now,) = store.execute(_NOW).fetchone()
            within = sessions_in(_Place(project))
            if name is None:
                sessions = session_rows(store, within, most)
            else:
                sessions = [session_named(store, within, name) or _refuse("a session elsewhere")]
            rows = {
                row["number"]: row
                for session in sessions
                for row in pin_rows(store, _Place(project, session["id"]), now)
            }
            return [_pin_of(rows[number]) for number in sorted(rows)]
    except _WHAT_TAKES_MORE:
        return None


def list_chat_pins(home: Path, project: str, chat: str = "") -> list[PinLine] | None:
    """The pins of a chat, `HOST:ID`, and of its project; None where it takes more to tell."""
    if not store_path(home).exists():
        return []
    try:
        with closing(_open(home)) as store:
            rows = pin_rows(store, _Place(project), *store.execute(_NOW).fetchone())
            own = (row for row in rows if row["scope"] != "session" or row["chat"] == chat)
            return [_pin_of(row) for row in own if row["kind"] != "note"]
    except _WHAT_TAKES_MORE:
        return None


_WITH_TITLE = (
    "session.*, (SELECT passage.text FROM passage WHERE passage.session = session.id"
    " AND passage.kind = 'm' AND passage.role = 'user'"
    " ORDER BY passage.number, passage.ordinal LIMIT 1) AS first_words"
)
_MOST_TITLE = 60  # characters


def title_of(row: StoredRow) -> str:
    """The title that the host gave a session, else the first words that the user said in it, where
    a row has them."""
    told = json.loads(row["traits"]).get("title")
    return short_title(told or row["first_words"] or "")


def short_title(text: str) -> str:
    """A text as the title of a chat."""
    words = " ".join(text.split())
    if len(words) <= _MOST_TITLE:
        return words
    return words[:_MOST_TITLE].rsplit(" ", 1)[0] + " …"


def session_rows(tx: Tx, within: Condition, limit: int) -> list[StoredRow]:
    """The rows of sessions, the newest first."""
    return tx.execute(
        f"SELECT {_WITH_TITLE} FROM session WHERE {within.sql}"
        " ORDER BY updated DESC, id DESC LIMIT ?",
        (*within.parameters, limit),
    ).fetchall()


def session_named(tx: Tx, within: Condition, name: str) -> StoredRow | None:
    """The row of the session of that name; the newest where several projects have one."""
    return tx.execute(
        f"SELECT {_WITH_TITLE} FROM session WHERE name = ? AND {within.sql}"
        " ORDER BY updated DESC LIMIT 1",
        (encodable(name), *within.parameters),
    ).fetchone()


PIN_COLUMNS = (
    "pin.number, pin.text, pin.kind, pin.scope, pin.author, pin.at, pin.source, pin.expires,"
    " pin.channel, pin.used, pin.checks, pin.checksum, coalesce(session.name, '') AS session,"
    " CASE session.agent WHEN '' THEN session.host || ':' || session.host_session END AS chat"
)


def pin_rows(tx: Tx, scope: Within, now: str, released: bool = False) -> list[StoredRow]:
    """The rows of the pins in force in the scope; with the released and expired ones if asked."""
    condition = pins_in(scope)
    in_force = "pin.released IS NULL AND (pin.expires IS NULL OR pin.expires > ?)"
    return tx.execute(
        f"SELECT {PIN_COLUMNS} FROM pin LEFT JOIN session ON session.id = pin.session"
        f" WHERE {condition.sql} AND (? OR ({in_force})) ORDER BY pin.number",
        (*condition.parameters, released, now),
    ).fetchall()


def author_in(row: StoredRow) -> PinAuthor:
    """Whose a pin is, by its row: a program's stands there as an agent's that was found in a
    message, as older versions can read it."""
    is_programs = (row["author"], row["channel"]) == ("agent", "message")
    return "program" if is_programs else row["author"]


def checksum_of(text: str) -> str:
    """The checksum that is kept beside a pin's text."""
    return "sha256:" + sha256(text.encode()).hexdigest()


def _open(home: Path) -> sqlite3.Connection:
    path = store_path(home)
    refuse_remote(path)
    store = connect(path, deadline=_PATIENCE, readonly=True)
    if pragma(store, "user_version") != SCHEMA_VERSION:
        store.close()
        _refuse("a store to be migrated")
    store.execute("BEGIN")  # all that is read is of one moment
    return store


def _session_of(row: StoredRow, store: sqlite3.Connection) -> SessionLine:
    told = store.execute(
        "SELECT detail FROM event WHERE session = ? AND name = ? ORDER BY id DESC LIMIT 1",
        (row["id"], _PAID),
    ).fetchone()
    return SessionLine(
        name=row["name"],
        project=project_of(row["project"]),
        messages=row["last_seq"],
        updated=moment(row["updated"]),
        origin=(row["host"], row["agent"], json.loads(row["traits"]).get("model") or ""),
        paid=told["detail"] if told else "",
        title=title_of(row),
    )


def _pin_of(row: StoredRow) -> PinLine:
    source, _, context = (row["source"] or "").partition("\n")
    if checksum_of(row["text"]) != row["checksum"]:
        _refuse("a pin that was changed")
    return PinLine(
        number=row["number"],
        text=row["text"],
        kind=row["kind"],
        scope=row["scope"],
        author=author_in(row),
        session=row["session"],
        at=moment(row["at"]),
        source=source,
        expires=moment(row["expires"]),
        channel=row["channel"],
        checks=row["checks"],
        context=context,
        used=moment(row["used"]),
    )


def _refuse(what: str) -> NoReturn:
    raise StoreError(f"More is needed than rows: {what}.")
