"""Sessions by name or by their host's own id."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Mapping
from datetime import datetime
from pathlib import PurePath
from typing import Any

from mcp_compaction.errors import UnknownSession
from mcp_compaction.model import Event, SessionInfo, Traits
from mcp_compaction.ports import Scope, SessionKey
from mcp_compaction.store.columns import encodable, from_json, stamp, to_json
from mcp_compaction.store.listing import session_named, session_rows
from mcp_compaction.store.scope import of_project, project_of, sessions_in


def open_session(
    connection: sqlite3.Connection, key: SessionKey, traits: Traits, now: datetime
) -> tuple[SessionInfo, bool]:
    """The session of that key, and whether it is new; only then the traits count."""
    row = _find_by_host(connection, key) or _find_by_name(connection, key)
    if row is not None:
        _adopt(connection, row, key)
        return session_info(connection, row["id"]), False
    name = key.name if key.name is not None else _make_name(connection, key)
    cursor = connection.execute(
        "INSERT INTO session (name, project, agent, host, host_session, parent, created, updated,"
        " traits) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            encodable(name),
            encodable(key.project),
            encodable(key.agent),
            encodable(key.host),
            None if key.host_session is None else encodable(key.host_session),
            key.parent,
            stamp(now),
            stamp(now),
            to_json(traits),
        ),
    )
    return info_of(session_row(connection, cursor.lastrowid or 0)), True


def take_over(
    connection: sqlite3.Connection, copy: int, key: SessionKey, said: Mapping[str, str]
) -> bool:
    """Give a session and its subagents' to a host, where they hold nothing but what the host says.

    Nothing else may come into a chat, or into another project, in this way: no word of an agent,
    no pin and no digest.
    """
    every = [copy, *_subagents_of(connection, copy)]
    is_taken = key.host_session is None or _find_by_host(connection, key) is not None
    if is_taken or not all(_holds_only(connection, one, said) for one in every):
        return False
    project = encodable(key.project)
    for one in every:
        row = session_row(connection, one)
        name = row["name"] if row["project"] == project else _make_name(connection, key)
        agent, parent = (key.agent, key.parent) if one == copy else (row["agent"], copy)
        connection.execute(
            "UPDATE session SET project = ?, name = ?, host = ?, host_session = ?, agent = ?,"
            " parent = ? WHERE id = ?",
            (
                project,
                name,
                encodable(key.host),
                encodable(key.host_session or ""),
                agent,
                parent,
                one,
            ),
        )
        connection.execute("UPDATE passage SET project = ? WHERE session = ?", (project, one))
    return True


def _subagents_of(connection: sqlite3.Connection, session: int) -> list[int]:
    rows = connection.execute("SELECT id FROM session WHERE parent = ? ORDER BY id", (session,))
    return [one for (one,) in rows]


def _holds_only(connection: sqlite3.Connection, session: int, said: Mapping[str, str]) -> bool:
    """Whether a session has these messages and nothing else: no pin and no view."""
    others = (
        ("SELECT count(*) FROM pin WHERE session = ?", session),
        ("SELECT view_version FROM session WHERE id = ?", session),
    )
    if any(connection.execute(sql, (one,)).fetchone()[0] for sql, one in others):
        return False
    rows = connection.execute("SELECT host_id, content FROM message WHERE session = ?", (session,))
    return all(said.get(host_id or "") == content for host_id, content in rows)


def find_session(connection: sqlite3.Connection, scope: Scope, name: str) -> SessionInfo | None:
    """The session of that name in the scope; the newest where several projects have one."""
    row = session_named(connection, sessions_in(scope), name)
    return None if row is None else info_of(row)


def find_host_session(
    connection: sqlite3.Connection, project: str, host_session: str, host: str | None = None
) -> SessionInfo | None:
    """The session that a host knows by this id of its own; its main agent's before others."""
    here = of_project("project", encodable(project))
    row = connection.execute(
        f"SELECT * FROM session WHERE {here.sql} AND host_session = ? AND (? IS NULL OR host = ?)"
        " ORDER BY agent = '' DESC, updated DESC LIMIT 1",
        (*here.parameters, encodable(host_session), host, host),
    ).fetchone()
    return None if row is None else info_of(row)


def list_sessions(
    connection: sqlite3.Connection, scope: Scope, limit: int
) -> tuple[SessionInfo, ...]:
    """The sessions of the scope, the newest first."""
    return tuple(map(info_of, session_rows(connection, sessions_in(scope), limit)))


def set_traits(connection: sqlite3.Connection, session: int, traits: Traits) -> SessionInfo:
    """Set those traits of a session that are named; the others stay as they are in the store."""
    known = session_info(connection, session).traits
    named = {name: getattr(traits, name) for name in traits.model_fields_set}
    text = to_json(known.model_copy(update=named))
    connection.execute("UPDATE session SET traits = ? WHERE id = ?", (text, session))
    return session_info(connection, session)


def calibrate(connection: sqlite3.Connection, session: int, counted: int, reported: int) -> None:
    """Note our count of the window beside the provider's count of the same window."""
    session_row(connection, session)
    connection.execute(
        "UPDATE session SET counted = ?, reported = ? WHERE id = ?", (counted, reported, session)
    )


def add_event(connection: sqlite3.Connection, session: int, event: Event) -> None:
    """Note that something happened."""
    session_row(connection, session)
    connection.execute(
        "INSERT INTO event (session, name, at, detail) VALUES (?, ?, ?, ?)",
        (session, encodable(event.name), stamp(event.at), encodable(event.detail)),
    )


def events(
    connection: sqlite3.Connection, session: int, name: str | None = None
) -> tuple[Event, ...]:
    """The events of that session, oldest first; with a name only those of it."""
    session_row(connection, session)
    rows = connection.execute(
        "SELECT name, at, detail FROM event WHERE session = ?1 AND (?2 IS NULL OR name = ?2)"
        " ORDER BY id",
        (session, name),
    )
    return tuple(Event(name=named, at=at, detail=detail) for named, at, detail in rows)


def session_row(connection: sqlite3.Connection, session: int) -> sqlite3.Row:
    """The row of a session that must be there."""
    row = connection.execute("SELECT * FROM session WHERE id = ?", (session,)).fetchone()
    if row is None:
        raise UnknownSession(f"There is no session {session}; list the sessions first.")
    return row


def session_info(connection: sqlite3.Connection, session: int) -> SessionInfo:
    """The name and place of a session that must be there."""
    return info_of(session_row(connection, session))


def _find_by_host(connection: sqlite3.Connection, key: SessionKey) -> sqlite3.Row | None:
    if key.host_session is None:
        return None
    here = of_project("project", encodable(key.project))
    names = tuple(encodable(text) for text in (key.host, key.host_session, key.agent))
    return connection.execute(
        f"SELECT * FROM session WHERE {here.sql} AND host = ? AND host_session = ? AND agent = ?"
        " ORDER BY updated DESC",
        (*here.parameters, *names),
    ).fetchone()


def _find_by_name(connection: sqlite3.Connection, key: SessionKey) -> sqlite3.Row | None:
    if key.name is None:
        return None
    here = of_project("project", encodable(key.project))
    return connection.execute(
        f"SELECT * FROM session WHERE {here.sql} AND name = ? ORDER BY updated DESC",
        (*here.parameters, encodable(key.name)),
    ).fetchone()


def _adopt(connection: sqlite3.Connection, row: sqlite3.Row, key: SessionKey) -> None:
    """Let a host find by its own id what it first asked for by name."""
    if row["host_session"] is None and key.host_session is not None:
        connection.execute(
            "UPDATE session SET host = ?, host_session = ?, agent = ? WHERE id = ?",
            (encodable(key.host), encodable(key.host_session), encodable(key.agent), row["id"]),
        )


def _make_name(connection: sqlite3.Connection, key: SessionKey) -> str:
    words = PurePath(key.project).name
    if key.parent is not None:
        words = f"{session_row(connection, key.parent)['name']}-{key.agent or 'agent'}"
    stem = re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")[:40].strip("-") or "session"
    (number,) = connection.execute(
        "SELECT count(*) + 1 FROM session WHERE project = ?", (encodable(key.project),)
    ).fetchone()
    while (
        _find_by_name(connection, key.model_copy(update={"name": f"{stem}-{number}"})) is not None
    ):
        number += 1
    return f"{stem}-{number}"


def info_of(row: sqlite3.Row | Mapping[str, Any]) -> SessionInfo:
    """The session of a row, of whichever store."""
    return SessionInfo(
        id=row["id"],
        name=row["name"],
        project=project_of(row["project"]),
        agent=row["agent"],
        host=row["host"],
        host_session=row["host_session"],
        parent=row["parent"],
        created=row["created"],
        updated=row["updated"],
        messages=row["last_seq"],
        traits=from_json(Traits, row["traits"]),
    )
