"""Sessions by name or by their host's own id, the beginnings that their thinking blocks were made
behind, and how far the transcripts of hosts are recorded.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import PurePath

from mcp_compaction.errors import UnknownSession
from mcp_compaction.model import Event, SessionInfo, Traits
from mcp_compaction.model.session import AT_TERMINAL
from mcp_compaction.ports import KnownTranscript, Mark, Scope, SessionKey
from mcp_compaction.store.listing import session_named, session_rows, title_of
from mcp_compaction.store.scope import of_project, project_of, sessions_in
from mcp_compaction.store.sql import StoredRow, Tx, encodable, from_json, stamp, to_json

# A title is read with the lists alone: what writes need not read what is said.
_WITHOUT_TITLE = "session.*, NULL AS first_words"


def open_session(
    tx: Tx, key: SessionKey, traits: Traits, now: datetime
) -> tuple[SessionInfo, bool]:
    """The session of that key, and whether it is new; only then the traits count."""
    row = _find(tx, key)
    if row is not None:
        _adopt(tx, row, key)
        return session_info(tx, row["id"]), False
    waiting = _find_waiting(tx, key)
    if waiting is not None:
        return _begin_waiting(tx, waiting, key, traits, now), True
    name = key.name if key.name is not None else _make_name(tx, key)
    cursor = tx.execute(
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
    return info_of(session_row(tx, cursor.lastrowid or 0)), True


def _find_waiting(tx: Tx, key: SessionKey) -> StoredRow | None:
    """The session that a pin at a terminal made where no chat was recorded yet."""
    if key.host == AT_TERMINAL or key.parent is not None or key.agent:
        return None
    here = of_project("project", encodable(key.project))
    return tx.execute(
        f"SELECT id, name FROM session WHERE {here.sql} AND host = ? AND last_seq = 0",
        (*here.parameters, AT_TERMINAL),
    ).fetchone()


def _begin_waiting(
    tx: Tx, row: StoredRow, key: SessionKey, traits: Traits, now: datetime
) -> SessionInfo:
    tx.execute(
        "UPDATE session SET name = ?, host = ?, host_session = ?, created = ?, updated = ?,"
        " traits = ? WHERE id = ?",
        (
            row["name"] if key.name is None else encodable(key.name),
            encodable(key.host),
            None if key.host_session is None else encodable(key.host_session),
            stamp(now),
            stamp(now),
            to_json(traits),
            row["id"],
        ),
    )
    return session_info(tx, row["id"])


def is_known(tx: Tx, key: SessionKey) -> bool:
    """Whether there is a session of that key."""
    return _find(tx, key) is not None


def _find(tx: Tx, key: SessionKey) -> StoredRow | None:
    return _find_by_host(tx, key) or _find_by_name(tx, key)


def take_over(tx: Tx, copy: int, key: SessionKey, said: Mapping[str, str]) -> bool:
    """Give a session and its subagents' to a host, where they hold nothing but what the host says.

    Nothing else may come into a chat, or into another project, in this way: no word of an agent,
    no pin and no digest.
    """
    every = [copy, *_subagents_of(tx, copy)]
    is_taken = key.host_session is None or _find_by_host(tx, key) is not None
    if is_taken or not all(_holds_only(tx, one, said) for one in every):
        return False
    project = encodable(key.project)
    for one in every:
        row = session_row(tx, one)
        name = row["name"] if row["project"] == project else _make_name(tx, key)
        agent, parent = (key.agent, key.parent) if one == copy else (row["agent"], copy)
        tx.execute(
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
        tx.execute("UPDATE passage SET project = ? WHERE session = ?", (project, one))
    return True


def _subagents_of(tx: Tx, session: int) -> list[int]:
    rows = tx.execute("SELECT id FROM session WHERE parent = ? ORDER BY id", (session,))
    return [one for (one,) in rows]


def _holds_only(tx: Tx, session: int, said: Mapping[str, str]) -> bool:
    """Whether a session has these messages and nothing else: no pin and no view."""
    others = (
        ("SELECT count(*) FROM pin WHERE session = ?", session),
        ("SELECT view_version FROM session WHERE id = ?", session),
    )
    if any(tx.execute(sql, (one,)).fetchone()[0] for sql, one in others):
        return False
    rows = tx.execute("SELECT host_id, content FROM message WHERE session = ?", (session,))
    return all(said.get(host_id or "") == content for host_id, content in rows)


def find_session(tx: Tx, scope: Scope, name: str) -> SessionInfo | None:
    """The session of that name in the scope; the newest where several projects have one."""
    row = session_named(tx, sessions_in(scope), name)
    return None if row is None else info_of(row)


def find_host_session(
    tx: Tx, project: str, host_session: str, host: str | None = None
) -> SessionInfo | None:
    """The session that a host knows by this id of its own; its main agent's before others."""
    here = of_project("project", encodable(project))
    row = tx.execute(
        f"SELECT {_WITHOUT_TITLE} FROM session WHERE {here.sql}"
        " AND host_session = ? AND host = coalesce(?, host)"
        " ORDER BY agent = '' DESC, updated DESC LIMIT 1",
        (*here.parameters, encodable(host_session), host),
    ).fetchone()
    return None if row is None else info_of(row)


def list_sessions(tx: Tx, scope: Scope, limit: int) -> tuple[SessionInfo, ...]:
    """The sessions of the scope, the newest first."""
    return tuple(map(info_of, session_rows(tx, sessions_in(scope), limit)))


def set_traits(tx: Tx, session: int, traits: Traits) -> SessionInfo:
    """Set those traits of a session that are named; the others stay as they are in the store."""
    known = session_info(tx, session).traits
    named = {name: getattr(traits, name) for name in traits.model_fields_set}
    text = to_json(known.model_copy(update=named))
    tx.execute("UPDATE session SET traits = ? WHERE id = ?", (text, session))
    return session_info(tx, session)


def calibrate(tx: Tx, session: int, counted: int, reported: int) -> None:
    """Note our count of the window beside the provider's count of the same window."""
    session_row(tx, session)
    tx.execute(
        "UPDATE session SET counted = ?, reported = ? WHERE id = ?", (counted, reported, session)
    )


def add_event(tx: Tx, session: int, event: Event) -> None:
    """Note that something happened."""
    session_row(tx, session)
    tx.execute(
        "INSERT INTO event (session, name, at, detail) VALUES (?, ?, ?, ?)",
        (session, encodable(event.name), stamp(event.at), encodable(event.detail)),
    )


def events(tx: Tx, session: int, name: str | None = None) -> tuple[Event, ...]:
    """The events of that session, oldest first; with a name only those of it."""
    session_row(tx, session)
    rows = tx.execute(
        "SELECT name, at, detail FROM event WHERE session = ? AND name = coalesce(?, name)"
        " ORDER BY id",
        (session, name),
    )
    return tuple(Event(name=named, at=at, detail=detail) for named, at, detail in rows)


def session_row(tx: Tx, session: int) -> StoredRow:
    """The row of a session that must be there."""
    row = tx.execute(f"SELECT {_WITHOUT_TITLE} FROM session WHERE id = ?", (session,)).fetchone()
    if row is None:
        raise UnknownSession(f"There is no session {session}; list the sessions first.")
    return row


def session_info(tx: Tx, session: int) -> SessionInfo:
    """The name and place of a session that must be there."""
    return info_of(session_row(tx, session))


def _find_by_host(tx: Tx, key: SessionKey) -> StoredRow | None:
    if key.host_session is None:
        return None
    here = of_project("project", encodable(key.project))
    names = tuple(encodable(text) for text in (key.host, key.host_session, key.agent))
    return tx.execute(
        f"SELECT {_WITHOUT_TITLE} FROM session WHERE {here.sql}"
        " AND host = ? AND host_session = ? AND agent = ?"
        " ORDER BY updated DESC",
        (*here.parameters, *names),
    ).fetchone()


def _find_by_name(tx: Tx, key: SessionKey) -> StoredRow | None:
    if key.name is None:
        return None
    here = of_project("project", encodable(key.project))
    return tx.execute(
        f"SELECT {_WITHOUT_TITLE} FROM session WHERE {here.sql} AND name = ? ORDER BY updated DESC",
        (*here.parameters, encodable(key.name)),
    ).fetchone()


def _adopt(tx: Tx, row: StoredRow, key: SessionKey) -> None:
    """Let a host find by its own id what it first asked for by name."""
    if row["host_session"] is None and key.host_session is not None:
        tx.execute(
            "UPDATE session SET host = ?, host_session = ?, agent = ? WHERE id = ?",
            (encodable(key.host), encodable(key.host_session), encodable(key.agent), row["id"]),
        )


def _make_name(tx: Tx, key: SessionKey) -> str:
    words = PurePath(key.project).name
    if key.parent is not None:
        words = f"{session_row(tx, key.parent)['name']}-{key.agent or 'agent'}"
    stem = re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")[:40].strip("-") or "session"
    (number,) = tx.execute(
        "SELECT count(*) + 1 FROM session WHERE project = ?", (encodable(key.project),)
    ).fetchone()
    while _find_by_name(tx, key.model_copy(update={"name": f"{stem}-{number}"})) is not None:
        number += 1
    return f"{stem}-{number}"


def info_of(row: StoredRow) -> SessionInfo:
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
        title=title_of(row),
        traits=from_json(Traits, row["traits"]),
    )


def thinking_of(tx: Tx, session: int) -> dict[str, str]:
    """All rows of a session."""
    rows = tx.execute(
        "SELECT block, beginning FROM thinking WHERE session = ?", (session,)
    ).fetchall()
    return dict(rows)


def keep_thinking(tx: Tx, session: int, changes: Mapping[str, str | None]) -> None:
    """Set rows of a session, or remove them; what was left out once stays so."""
    session_row(tx, session)
    tx.executemany(
        "INSERT INTO thinking (session, block, beginning) VALUES (?, ?, ?)"
        " ON CONFLICT (session, block) DO UPDATE SET beginning = excluded.beginning"
        " WHERE thinking.beginning != ''",
        [(session, block, mark) for block, mark in changes.items() if mark is not None],
    )
    tx.executemany(
        "DELETE FROM thinking WHERE session = ? AND block = ?",
        [(session, block) for block, mark in changes.items() if mark is None],
    )


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
