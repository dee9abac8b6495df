"""Remove what its owner wants gone, and all that was derived from it: the one way to lose a row."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from hashlib import sha256

from mcp_compaction import formats
from mcp_compaction.errors import InputError, UnknownRef
from mcp_compaction.model import View
from mcp_compaction.ports import Forgotten, Scope
from mcp_compaction.store.cleaning import (
    STUB_TOKENS,
    clean_receipt,
    clean_view,
    count_lines,
    remove_lines,
)
from mcp_compaction.store.columns import from_json, stamp, to_json
from mcp_compaction.store.postgres import passages, views
from mcp_compaction.store.postgres.database import Row, Tx
from mcp_compaction.store.postgres.sessions import IN_SCOPE, one_session, scope_values, session_row
from mcp_compaction.store.stub import FORGOTTEN, stub

_OWNED = (
    *("message", "tool_call", "call_message", "section", "view", "digest", "receipt", "event"),
    *("model_call", "thinking", "claim"),
)


def forget(tx: Tx, scope: Scope, seqs: Sequence[int], now: datetime) -> Forgotten:
    """Remove messages, a session or a project from every table."""
    if scope.project is None and scope.session is None:
        raise InputError("Forgetting everything at once is not offered; name a project or session.")
    if seqs:
        return _forget_messages(tx, one_session(tx, scope), seqs, stamp(now))
    if scope.session is not None:
        return _forget_sessions(tx, [one_session(tx, scope)], stamp(now))
    return _forget_project(tx, scope, stamp(now))


# Some messages


def _forget_messages(tx: Tx, session: int, seqs: Sequence[int], now: str) -> Forgotten:
    session_row(tx, session, to_write=True)
    edits = _list_edits(tx, session)
    once = dict.fromkeys([*seqs, *(words for seq, words in edits if seq in seqs)])
    lines = 0
    for seq in once:
        lines += _forget_message(tx, session, seq, now)
    for place in {seq for seq, words in edits if words in once} - once.keys():
        lines += _clean_derived(tx, session, place, now)
    views.renew(tx, session)  # a compaction under way may still quote a message
    kept: list[str] = []
    for seq in once:  # what a pin keeps of the message beside its own words
        tx.run(
            "UPDATE pin SET source = %(ref)s WHERE owner = %(owner)s AND session = %(session)s"
            " AND starts_with(source, %(ref)s || chr(10))",
            ref=f"m{seq}",
            session=session,
        )
        rows = tx.all(
            "SELECT number FROM pin WHERE owner = %(owner)s AND session = %(session)s"
            " AND source = %(ref)s ORDER BY number",
            ref=f"m{seq}",
            session=session,
        )
        kept += _refs_of(rows)
    return Forgotten(messages=len(once), digest_lines=lines, kept_pins=tuple(kept))


def _refs_of(rows: Iterable[Row]) -> list[str]:
    return [f"p{row['number']}" for row in rows]


def _list_edits(tx: Tx, session: int) -> set[tuple[int, int]]:
    """The messages that were edited, each with one that holds other words for it."""
    rows = tx.all(
        "SELECT json FROM view WHERE owner = %(owner)s AND session = %(session)s", session=session
    )
    views_of = (from_json(View, row["json"]) for row in rows)
    return {(one.seq, one.words) for view in views_of for one in view.reworded}


def _forget_message(tx: Tx, session: int, seq: int, now: str) -> int:
    """Remove a message and what was made from it; the number of digest lines that took."""
    row = tx.one(
        "SELECT role, shape, raw FROM message WHERE owner = %(owner)s AND session = %(session)s"
        " AND seq = %(seq)s",
        session=session,
        seq=seq,
    )
    if row is None:
        raise UnknownRef(f"There is no m{seq} in this session; look at its messages.")
    gone = tx.one(
        "SELECT 1 FROM tombstone WHERE owner = %(owner)s AND session = %(session)s"
        " AND ref = %(ref)s",
        session=session,
        ref=f"m{seq}",
    )
    if gone is None:
        _leave_tombstone(tx, session, f"m{seq}", [row["raw"]], now)
        raw: str = row["raw"].decode()
        _, parts = formats.read(row["shape"], raw)
        tx.run(
            "UPDATE message SET raw = %(raw)s, tokens = least(tokens, %(tokens)s)"
            " WHERE owner = %(owner)s AND session = %(session)s AND seq = %(seq)s",
            raw=stub(row["shape"], row["role"], parts, raw).encode(),
            tokens=STUB_TOKENS,
            session=session,
            seq=seq,
        )
    passages.delete(tx, session, "m", seq)
    return _clean_derived(tx, session, seq, now)


def _clean_derived(tx: Tx, session: int, seq: int, now: str) -> int:
    """Remove what was made from a message; the number of digest lines that took."""
    _clean_views(tx, session, seq)
    _clean_reports(tx, session, seq)
    return _clean_digests(tx, session, seq, now)


def _clean_views(tx: Tx, session: int, seq: int) -> None:
    rows = tx.all(
        "SELECT version, json FROM view WHERE owner = %(owner)s AND session = %(session)s",
        session=session,
    )
    for row in rows:
        view = from_json(View, row["json"])
        cleaned = clean_view(view, seq)
        if cleaned != view:
            tx.run(
                "UPDATE view SET json = %(json)s WHERE owner = %(owner)s"
                " AND session = %(session)s AND version = %(version)s",
                json=to_json(cleaned),
                session=session,
                version=row["version"],
            )


def _clean_reports(tx: Tx, session: int, seq: int) -> None:
    """Blank what receipts and events say about a message: it may be a quotation."""
    for receipt, _ in views.receipts(tx, session):
        cleaned = clean_receipt(receipt, seq)
        if cleaned != receipt:
            tx.run(
                "UPDATE receipt SET json = %(json)s WHERE owner = %(owner)s"
                " AND session = %(session)s AND number = %(number)s",
                json=to_json(cleaned),
                session=session,
                number=receipt.compaction,
            )
    named = re.compile(rf"\bm{seq}\b")
    rows = tx.all(
        "SELECT id, detail FROM event WHERE owner = %(owner)s AND session = %(session)s",
        session=session,
    )
    for row in rows:
        if named.search(row["detail"]):
            tx.run(
                "UPDATE event SET detail = %(detail)s WHERE owner = %(owner)s"
                " AND session = %(session)s AND id = %(id)s",
                detail=FORGOTTEN,
                session=session,
                id=row["id"],
            )


def _clean_digests(tx: Tx, session: int, seq: int, now: str) -> int:
    project = session_row(tx, session)["project"]
    removed = 0
    for digest in views.digests(tx, session):
        cleaned = remove_lines(digest, seq)
        lines = count_lines(digest) - count_lines(cleaned)
        if not lines:
            continue
        removed += lines
        values = {"session": session, "number": digest.number}
        tx.run(
            "UPDATE digest SET json = %(json)s WHERE owner = %(owner)s AND session = %(session)s"
            " AND number = %(number)s",
            json=to_json(cleaned),
            **values,
        )
        row = tx.one(
            "SELECT at FROM passage WHERE owner = %(owner)s AND session = %(session)s"
            " AND kind = 'd' AND number = %(number)s LIMIT 1",
            **values,
        )
        passages.delete(tx, session, "d", digest.number)
        at = now if row is None else row["at"]
        passages.insert_digest(tx, session, project, cleaned, at)
    return removed


# Whole sessions


def _forget_project(tx: Tx, scope: Scope, now: str) -> Forgotten:
    rows = tx.all(
        f"SELECT id FROM session WHERE owner = %(owner)s AND {IN_SCOPE} ORDER BY id",
        **scope_values(scope),
    )
    project = scope_values(scope)["project"]
    pins = tx.all(
        "SELECT number, session FROM pin WHERE owner = %(owner)s AND project = %(project)s"
        " AND scope = 'project'",
        project=project,
    )
    _delete_pins(tx, pins)
    forgotten = _forget_sessions(tx, [row["id"] for row in rows], now)
    # A global pin belongs to every project; only its origin is forgotten.
    for table in ("pin", "passage"):
        tx.run(
            f"UPDATE {table} SET project = NULL WHERE owner = %(owner)s AND project = %(project)s",
            project=project,
        )
    tx.run(
        "DELETE FROM announced WHERE owner = %(owner)s AND project = %(project)s", project=project
    )
    return forgotten.model_copy(update={"pins": forgotten.pins + len(pins)})


def _forget_sessions(tx: Tx, sessions: Sequence[int], now: str) -> Forgotten:
    messages = pins = 0
    kept: list[str] = []
    for session in sessions:
        session_row(tx, session, to_write=True)
        rows = tx.all(
            "SELECT raw FROM message WHERE owner = %(owner)s AND session = %(session)s"
            " ORDER BY seq",
            session=session,
        )
        _leave_tombstone(tx, session, "session", [row["raw"] for row in rows], now)
        messages += len(rows)
        own = tx.all(
            "SELECT number, session FROM pin WHERE owner = %(owner)s AND session = %(session)s"
            " AND scope = 'session'",
            session=session,
        )
        _delete_pins(tx, own)
        pins += len(own)
        kept += _refs_of(
            tx.all(
                "SELECT number FROM pin WHERE owner = %(owner)s AND session = %(session)s"
                " ORDER BY number",
                session=session,
            )
        )
        passages.delete_session(tx, session)
        for table in _OWNED:
            tx.run(
                f"DELETE FROM {table} WHERE owner = %(owner)s AND session = %(session)s",
                session=session,
            )
        # The place of a transcript stays, or the next reading would bring all of it back.
        for table, column in (("pin", "session"), ("transcript", "session"), ("session", "parent")):
            tx.run(
                f"UPDATE {table} SET {column} = NULL WHERE owner = %(owner)s"
                f" AND {column} = %(session)s",
                session=session,
            )
        tx.run("DELETE FROM session WHERE owner = %(owner)s AND id = %(session)s", session=session)
    return Forgotten(messages=messages, sessions=len(sessions), pins=pins, kept_pins=tuple(kept))


def _delete_pins(tx: Tx, pins: Sequence[Row]) -> None:
    for pin in pins:
        passages.delete(tx, pin["session"] or 0, "p", pin["number"])
    numbers = [pin["number"] for pin in pins]
    tx.run(
        "UPDATE pin SET superseded_by = NULL WHERE owner = %(owner)s"
        " AND superseded_by = ANY(%(numbers)s)",
        numbers=numbers,
    )
    tx.run(
        "DELETE FROM announced WHERE owner = %(owner)s AND pin = ANY(%(numbers)s)",
        numbers=numbers,
    )
    tx.run("DELETE FROM pin WHERE owner = %(owner)s AND number = ANY(%(numbers)s)", numbers=numbers)


def _leave_tombstone(tx: Tx, session: int, ref: str, raws: Iterable[bytes], now: str) -> None:
    """Leave the hash of the forgotten messages."""
    digest = sha256()
    for raw in raws:
        digest.update(raw)
    tx.run(
        "INSERT INTO tombstone (owner, session, ref, sha256, at)"
        " VALUES (%(owner)s, %(session)s, %(ref)s, %(sha256)s, %(now)s)",
        session=session,
        ref=ref,
        sha256=digest.hexdigest(),
        now=now,
    )
