"""Sessions by name or by their host's own id, and what happened to them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import PurePath

from mcp_compaction.errors import InputError, UnknownSession
from mcp_compaction.model import Event, ModelCall, SessionInfo, Spent, Traits
from mcp_compaction.ports import KnownTranscript, Mark, Scope, SessionKey
from mcp_compaction.store.columns import stamp, to_json
from mcp_compaction.store.postgres.database import Row, Tx, plain
from mcp_compaction.store.sessions import info_of

# A scope as a condition: what is not asked for is NULL.
IN_SCOPE = (
    "(%(project)s::text IS NULL OR session.project = %(project)s)"
    " AND (%(only)s::bigint IS NULL OR session.id = %(only)s)"
)


def scope_values(scope: Scope) -> dict[str, object]:
    """The values of a scope's conditions."""
    return {
        "project": None if scope.project is None else plain(scope.project),
        "only": scope.session,
    }


def check_session(tx: Tx, scope: Scope) -> None:
    """Refuse a scope whose session is not in its project."""
    if scope.session is None:
        return
    found = tx.one(
        f"SELECT 1 FROM session WHERE owner = %(owner)s AND {IN_SCOPE}", **scope_values(scope)
    )
    if found is None:
        raise UnknownSession(f"There is no session {scope.session} here; list the sessions first.")


def one_session(tx: Tx, scope: Scope) -> int:
    """The session of a scope that must name one."""
    if scope.session is None:
        raise InputError("This needs one session; name it.")
    check_session(tx, scope)
    return scope.session


def session_row(tx: Tx, session: int, *, to_write: bool = False) -> Row:
    """The row of a session that must be there; to write to it, nobody else may."""
    lock = " FOR UPDATE" if to_write else ""
    row = tx.one(f"SELECT * FROM session WHERE owner = %(owner)s AND id = %(id)s{lock}", id=session)
    if row is None:
        raise UnknownSession(f"There is no session {session}; list the sessions first.")
    return row


def session_info(tx: Tx, session: int) -> SessionInfo:
    """The name and place of a session that must be there."""
    return info_of(session_row(tx, session))


def take_turn(tx: Tx) -> None:
    """Wait until nobody else makes sessions or pins of this owner."""
    tx.run("INSERT INTO counter (owner) VALUES (%(owner)s) ON CONFLICT (owner) DO NOTHING")
    tx.one("SELECT 1 FROM counter WHERE owner = %(owner)s FOR UPDATE")


def open_session(
    tx: Tx, key: SessionKey, traits: Traits, now: datetime
) -> tuple[SessionInfo, bool]:
    """The session of that key, and whether it is new; only then the traits count."""
    row = _find(tx, key)
    if row is None:
        take_turn(tx)
        row = _find(tx, key)
    if row is not None:
        _adopt(tx, row, key)
        return session_info(tx, row["id"]), False
    name = key.name if key.name is not None else _make_name(tx, key)
    made = tx.one(
        "UPDATE counter SET sessions = sessions + 1 WHERE owner = %(owner)s RETURNING sessions"
    )
    number = 0 if made is None else made["sessions"]
    tx.run(
        "INSERT INTO session (owner, id, name, project, agent, host, host_session, parent, created,"
        " updated, traits) VALUES (%(owner)s, %(id)s, %(name)s, %(project)s, %(agent)s, %(host)s,"
        " %(host_session)s, %(parent)s, %(now)s, %(now)s, %(traits)s)",
        **_values_of(key),
        id=number,
        name=plain(name),
        parent=key.parent,
        now=stamp(now),
        traits=to_json(traits),
    )
    return session_info(tx, number), True


def _find(tx: Tx, key: SessionKey) -> Row | None:
    return _find_by_host(tx, key) or _find_by_name(tx, key)


def _values_of(key: SessionKey) -> dict[str, object]:
    return {
        "project": plain(key.project),
        "agent": plain(key.agent),
        "host": plain(key.host),
        "host_session": None if key.host_session is None else plain(key.host_session),
    }


def _find_by_host(tx: Tx, key: SessionKey) -> Row | None:
    if key.host_session is None:
        return None
    return tx.one(
        "SELECT * FROM session WHERE owner = %(owner)s AND project = %(project)s"
        " AND host = %(host)s AND host_session = %(host_session)s AND agent = %(agent)s",
        **_values_of(key),
    )


def _find_by_name(tx: Tx, key: SessionKey) -> Row | None:
    if key.name is None:
        return None
    return tx.one(
        "SELECT * FROM session WHERE owner = %(owner)s AND project = %(project)s"
        " AND name = %(name)s",
        project=plain(key.project),
        name=plain(key.name),
    )


def _adopt(tx: Tx, row: Row, key: SessionKey) -> None:
    """Let a host find by its own id what it first asked for by name."""
    if row["host_session"] is None and key.host_session is not None:
        tx.run(
            "UPDATE session SET host = %(host)s, host_session = %(host_session)s, agent = %(agent)s"
            " WHERE owner = %(owner)s AND id = %(id)s",
            **_values_of(key),
            id=row["id"],
        )


def _make_name(tx: Tx, key: SessionKey) -> str:
    words = PurePath(key.project).name
    if key.parent is not None:
        words = f"{session_row(tx, key.parent)['name']}-{key.agent or 'agent'}"
    stem = re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")[:40].strip("-") or "session"
    row = tx.one(
        "SELECT count(*) + 1 AS number FROM session WHERE owner = %(owner)s"
        " AND project = %(project)s",
        project=plain(key.project),
    )
    number: int = 1 if row is None else row["number"]
    while _find_by_name(tx, key.model_copy(update={"name": f"{stem}-{number}"})) is not None:
        number += 1
    return f"{stem}-{number}"


def take_over(tx: Tx, copy: int, key: SessionKey, said: Mapping[str, str]) -> bool:
    """Give a session and its subagents' to a host, where they hold nothing but what it says."""
    take_turn(tx)
    rows = tx.all(
        "SELECT id FROM session WHERE owner = %(owner)s AND parent = %(copy)s ORDER BY id",
        copy=copy,
    )
    every = [copy, *(row["id"] for row in rows)]
    if key.host_session is None or _find_by_host(tx, key) is not None:
        return False
    for one in every:
        if not _holds_only(tx, one, said):
            return False
    for one in every:
        row = session_row(tx, one, to_write=True)
        is_here = row["project"] == plain(key.project)
        values = _values_of(key)
        if one != copy:
            values["agent"] = row["agent"]
        tx.run(
            "UPDATE session SET project = %(project)s, name = %(name)s, host = %(host)s,"
            " host_session = %(host_session)s, agent = %(agent)s, parent = %(parent)s"
            " WHERE owner = %(owner)s AND id = %(id)s",
            **values,
            name=row["name"] if is_here else _make_name(tx, key),
            parent=key.parent if one == copy else copy,
            id=one,
        )
        tx.run(
            "UPDATE passage SET project = %(project)s WHERE owner = %(owner)s AND session = %(id)s",
            project=plain(key.project),
            id=one,
        )
    return True


def _holds_only(tx: Tx, session: int, said: Mapping[str, str]) -> bool:
    """Whether a session has these messages and nothing else: no pin and no view."""
    row = session_row(tx, session, to_write=True)
    pin = tx.one(
        "SELECT 1 FROM pin WHERE owner = %(owner)s AND session = %(id)s LIMIT 1", id=session
    )
    if row["view_version"] or pin is not None:
        return False
    rows = tx.all(
        "SELECT host_id, content FROM message WHERE owner = %(owner)s AND session = %(id)s",
        id=session,
    )
    return all(said.get(row["host_id"] or "") == row["content"] for row in rows)


def find_session(tx: Tx, scope: Scope, name: str) -> SessionInfo | None:
    """The session of that name in the scope; the newest where several projects have one."""
    row = tx.one(
        f"SELECT * FROM session WHERE owner = %(owner)s AND name = %(name)s AND {IN_SCOPE}"
        " ORDER BY updated DESC LIMIT 1",
        **scope_values(scope),
        name=plain(name),
    )
    return None if row is None else info_of(row)


def find_host_session(
    tx: Tx, project: str, host_session: str, host: str | None
) -> SessionInfo | None:
    """The session that a host knows by this id of its own; its main agent's before others."""
    row = tx.one(
        "SELECT * FROM session WHERE owner = %(owner)s AND project = %(project)s"
        " AND host_session = %(host_session)s AND (%(host)s::text IS NULL OR host = %(host)s)"
        " ORDER BY (agent = '') DESC, updated DESC LIMIT 1",
        project=plain(project),
        host_session=plain(host_session),
        host=None if host is None else plain(host),
    )
    return None if row is None else info_of(row)


def list_sessions(tx: Tx, scope: Scope, limit: int) -> tuple[SessionInfo, ...]:
    """The sessions of the scope, the newest first."""
    rows = tx.all(
        f"SELECT * FROM session WHERE owner = %(owner)s AND {IN_SCOPE}"
        " ORDER BY updated DESC, id DESC LIMIT %(limit)s",
        **scope_values(scope),
        limit=limit,
    )
    return tuple(map(info_of, rows))


def set_traits(tx: Tx, session: int, traits: Traits) -> SessionInfo:
    """Set those traits of a session that are named; the others stay as they are."""
    known = info_of(session_row(tx, session, to_write=True)).traits
    named = {name: getattr(traits, name) for name in traits.model_fields_set}
    tx.run(
        "UPDATE session SET traits = %(traits)s WHERE owner = %(owner)s AND id = %(id)s",
        traits=to_json(known.model_copy(update=named)),
        id=session,
    )
    return session_info(tx, session)


def calibrate(tx: Tx, session: int, counted: int, reported: int) -> None:
    """Note our count of the window beside the provider's count of the same window."""
    session_row(tx, session, to_write=True)
    tx.run(
        "UPDATE session SET counted = %(counted)s, reported = %(reported)s"
        " WHERE owner = %(owner)s AND id = %(id)s",
        counted=counted,
        reported=reported,
        id=session,
    )


def add_event(tx: Tx, session: int, event: Event) -> None:
    """Note that something happened."""
    session_row(tx, session)
    tx.run(
        "INSERT INTO event (owner, session, name, at, detail)"
        " VALUES (%(owner)s, %(session)s, %(name)s, %(at)s, %(detail)s)",
        session=session,
        **_event_values(event),
    )


def add_new_events(tx: Tx, session: int, given: Sequence[Event]) -> None:
    """Note what happened, each once: a transcript may be read again from its start."""
    for event in given:
        tx.run(
            "INSERT INTO event (owner, session, name, at, detail)"
            " SELECT %(owner)s, %(session)s, %(name)s, %(at)s, %(detail)s WHERE NOT EXISTS"
            " (SELECT 1 FROM event WHERE owner = %(owner)s AND session = %(session)s"
            " AND name = %(name)s AND at = %(at)s AND detail = %(detail)s)",
            session=session,
            **_event_values(event),
        )


def _event_values(event: Event) -> dict[str, object]:
    return {"name": plain(event.name), "at": stamp(event.at), "detail": plain(event.detail)}


def events(tx: Tx, session: int, name: str | None) -> tuple[Event, ...]:
    """The events of that session, oldest first; with a name only those of it."""
    session_row(tx, session)
    rows = tx.all(
        "SELECT name, at, detail FROM event WHERE owner = %(owner)s AND session = %(session)s"
        " AND (%(name)s::text IS NULL OR name = %(name)s) ORDER BY id",
        session=session,
        name=None if name is None else plain(name),
    )
    return tuple(Event(name=row["name"], at=row["at"], detail=row["detail"]) for row in rows)


def find_transcript(tx: Tx, address: str) -> KnownTranscript | None:
    """How far a transcript is recorded; None where nothing of it is."""
    row = tx.one(
        "SELECT session, position, tail FROM transcript WHERE owner = %(owner)s"
        " AND address = %(address)s",
        address=plain(address),
    )
    if row is None:
        return None
    return KnownTranscript(
        mark=Mark(address=address, position=row["position"], tail=row["tail"]),
        session=None if row["session"] is None else session_info(tx, row["session"]),
    )


def save_mark(tx: Tx, session: int, mark: Mark) -> None:
    """Note how far a transcript is recorded."""
    tx.run(
        "INSERT INTO transcript (owner, address, session, position, tail)"
        " VALUES (%(owner)s, %(address)s, %(session)s, %(position)s, %(tail)s)"
        " ON CONFLICT (owner, address) DO UPDATE SET session = excluded.session,"
        " position = excluded.position, tail = excluded.tail",
        address=plain(mark.address),
        session=session,
        position=mark.position,
        tail=plain(mark.tail),
    )


def add_calls(tx: Tx, session: int, calls: Sequence[ModelCall], now: datetime) -> None:
    """Note calls, those that gave nothing too: they were paid for."""
    session_row(tx, session)
    for call in calls:
        tx.run(
            "INSERT INTO model_call (owner, session, at, model, seconds, input_tokens,"
            " output_tokens, cached_tokens, cost, failed) VALUES (%(owner)s, %(session)s, %(at)s,"
            " %(model)s, %(seconds)s, %(input)s, %(output)s, %(cached)s, %(cost)s, %(failed)s)",
            session=session,
            at=stamp(now),
            model=plain(call.model),
            seconds=call.seconds,
            input=call.input_tokens,
            output=call.output_tokens,
            cached=call.cached_tokens,
            cost=call.cost,
            failed=plain(call.failed),
        )


def spent(tx: Tx, session: int | None, since: datetime | None) -> Spent:
    """The sum over the calls at or after a moment, of one session or of all."""
    row = tx.one(
        "SELECT count(*) AS calls, coalesce(sum(input_tokens), 0)::bigint AS input_tokens,"
        " coalesce(sum(output_tokens), 0)::bigint AS output_tokens,"
        " coalesce(sum(cached_tokens), 0)::bigint AS cached_tokens,"
        " coalesce(sum(cost), 0) AS cost, coalesce(sum(seconds), 0) AS seconds,"
        " count(*) FILTER (WHERE failed <> '') AS failed FROM model_call"
        " WHERE owner = %(owner)s AND (%(session)s::bigint IS NULL OR session = %(session)s)"
        " AND at >= %(since)s",
        session=session,
        since="" if since is None else stamp(since),
    )
    return Spent(**(row or {}))


def thinking(tx: Tx, session: int) -> dict[str, str]:
    """The beginnings that the thinking blocks of a session were made behind."""
    rows = tx.all(
        "SELECT block, beginning FROM thinking WHERE owner = %(owner)s AND session = %(session)s",
        session=session,
    )
    return {row["block"]: row["beginning"] for row in rows}


def keep_thinking(tx: Tx, session: int, changes: Mapping[str, str | None]) -> None:
    """Set rows of a session, or remove them; what was left out once stays so."""
    session_row(tx, session, to_write=True)
    for block, beginning in changes.items():
        if beginning is None:
            tx.run(
                "DELETE FROM thinking WHERE owner = %(owner)s AND session = %(session)s"
                " AND block = %(block)s",
                session=session,
                block=plain(block),
            )
        else:
            tx.run(
                "INSERT INTO thinking (owner, session, block, beginning)"
                " VALUES (%(owner)s, %(session)s, %(block)s, %(beginning)s)"
                " ON CONFLICT (owner, session, block) DO UPDATE"
                " SET beginning = excluded.beginning WHERE thinking.beginning <> ''",
                session=session,
                block=plain(block),
                beginning=plain(beginning),
            )
