"""Remove what its owner wants gone, and all that was derived from it: the one way to lose a row."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from hashlib import sha256
from itertools import chain

from mcp_compaction import formats
from mcp_compaction.errors import InputError, UnknownRef
from mcp_compaction.model import Receipt, View
from mcp_compaction.ports import Forgotten, Scope
from mcp_compaction.store import passages, views
from mcp_compaction.store.cleaning import (
    STUB_TOKENS,
    clean_receipt,
    clean_view,
    count_lines,
    remove_lines,
)
from mcp_compaction.store.columns import from_json, stamp, to_json
from mcp_compaction.store.scope import of_project, one_session, sessions_in
from mcp_compaction.store.sessions import session_row
from mcp_compaction.store.sql import Tx
from mcp_compaction.store.stub import FORGOTTEN, stub

_OWNED = (
    *("message", "tool_call", "call_message", "section", "view", "digest", "receipt", "event"),
    *("model_call", "thinking"),
)


def forget(tx: Tx, scope: Scope, seqs: Sequence[int], now: datetime) -> Forgotten:
    """Remove messages, a session or a project from every table; the file is purged after it."""
    if scope.project is None and scope.session is None:
        raise InputError("Forgetting everything at once is not offered; name a project or session.")
    if seqs:
        return _forget_messages(tx, one_session(tx, scope), seqs, stamp(now))
    if scope.session is not None:
        return _forget_sessions(tx, [one_session(tx, scope)], stamp(now))
    return _forget_project(tx, scope, stamp(now))


def list_chats(tx: Tx) -> set[str]:
    """All chats that are known, by the ids of their hosts."""
    rows = tx.execute("SELECT DISTINCT host_session FROM session")
    return {chat for (chat,) in rows if chat}


def list_calls(tx: Tx, scope: Scope, seqs: Sequence[int]) -> set[str]:
    """The calls that messages make or answer."""
    asked = "SELECT call FROM call_message WHERE session = ? AND seq = ?"
    return {call for seq in seqs for (call,) in tx.execute(asked, (scope.session, seq))}


# Some messages


def _forget_messages(tx: Tx, session: int, seqs: Sequence[int], now: str) -> Forgotten:
    edits = _list_edits(tx, session)
    once = dict.fromkeys([*seqs, *(words for seq, words in edits if seq in seqs)])
    lines = sum(_forget_message(tx, session, seq, now) for seq in once)
    for place in {seq for seq, words in edits if words in once} - once.keys():
        lines += _clean_derived(tx, session, place, now)
    views.renew(tx, session)  # a compaction under way may still quote a message
    for seq in once:  # what a pin keeps of the message beside its own words
        tx.execute(
            "UPDATE pin SET source = ? WHERE session = ? AND source LIKE ?",
            (f"m{seq}", session, f"m{seq}\n%"),
        )
    pins = [_list_pins(tx, "session = ? AND source = ?", session, f"m{seq}") for seq in once]
    return Forgotten(
        messages=len(once), digest_lines=lines, kept_pins=tuple(chain.from_iterable(pins))
    )


def _forget_message(tx: Tx, session: int, seq: int, now: str) -> int:
    """Remove a message and what was made from it; the number of digest lines that took."""
    row = tx.execute(
        "SELECT role, shape, tokens, raw FROM message WHERE session = ? AND seq = ?", (session, seq)
    ).fetchone()
    if row is None:
        raise UnknownRef(f"There is no m{seq} in this session; look at its messages.")
    if not _is_forgotten(tx, session, seq):
        _leave_tombstone(tx, session, f"m{seq}", [row["raw"]], now)
        _, parts = formats.read(row["shape"], row["raw"])
        left = stub(row["shape"], row["role"], parts, row["raw"])
        tx.execute(
            "UPDATE message SET raw = ?, tokens = ? WHERE session = ? AND seq = ?",
            (left, min(row["tokens"], STUB_TOKENS), session, seq),
        )
    passages.delete(tx, session, "m", seq)
    return _clean_derived(tx, session, seq, now)


def _list_edits(tx: Tx, session: int) -> set[tuple[int, int]]:
    """The messages that were edited, each with one that holds other words for it."""
    rows = tx.execute("SELECT json FROM view WHERE session = ?", (session,))
    edits = (one for (text,) in rows for one in json.loads(text).get("reworded", ()))
    return {(one["seq"], one["words"]) for one in edits}


def _clean_derived(tx: Tx, session: int, seq: int, now: str) -> int:
    """Remove what was made from a message; the number of digest lines that took."""
    _clean_views(tx, session, seq)
    _clean_reports(tx, session, seq)
    return _clean_digests(tx, session, seq, now)


def _list_pins(tx: Tx, condition: str, *parameters: str | int) -> tuple[str, ...]:
    rows = tx.execute(f"SELECT number FROM pin WHERE {condition} ORDER BY number", parameters)
    return tuple(f"p{number}" for (number,) in rows)


def _is_forgotten(tx: Tx, session: int, seq: int) -> bool:
    row = tx.execute(
        "SELECT 1 FROM tombstone WHERE session = ? AND ref = ?", (session, f"m{seq}")
    ).fetchone()
    return row is not None


def _clean_digests(tx: Tx, session: int, seq: int, now: str) -> int:
    project = session_row(tx, session)["project"]
    removed = 0
    for digest in views.digests(tx, session):
        cleaned = remove_lines(digest, seq)
        lines = count_lines(digest) - count_lines(cleaned)
        if not lines:
            continue
        removed += lines
        tx.execute(
            "UPDATE digest SET json = ? WHERE session = ? AND number = ?",
            (to_json(cleaned), session, digest.number),
        )
        row = tx.execute(
            "SELECT at FROM passage WHERE session = ? AND kind = 'd' AND number = ?",
            (session, digest.number),
        ).fetchone()
        passages.delete(tx, session, "d", digest.number)
        at = now if row is None else row["at"]
        passages.insert_digest(tx, session, project, cleaned, at)
    return removed


def _clean_views(tx: Tx, session: int, seq: int) -> None:
    rows = tx.execute("SELECT version, json FROM view WHERE session = ?", (session,))
    for version, text in rows.fetchall():
        view = from_json(View, text)
        cleaned = clean_view(view, seq)
        if cleaned is view:
            continue
        tx.execute(
            "UPDATE view SET json = ? WHERE session = ? AND version = ?",
            (to_json(cleaned), session, version),
        )


def _clean_reports(tx: Tx, session: int, seq: int) -> None:
    """Blank what receipts and events say about a message: it may be a quotation."""
    named = re.compile(rf"\bm{seq}\b")
    for receipt, _ in views.receipts(tx, session):
        _update_receipt(tx, session, receipt, clean_receipt(receipt, seq))
    rows = tx.execute("SELECT id, detail FROM event WHERE session = ?", (session,))
    for number, detail in rows.fetchall():
        if named.search(detail):
            tx.execute("UPDATE event SET detail = ? WHERE id = ?", (FORGOTTEN, number))


def _update_receipt(tx: Tx, session: int, receipt: Receipt, cleaned: Receipt) -> None:
    if cleaned != receipt:
        tx.execute(
            "UPDATE receipt SET json = ? WHERE session = ? AND number = ?",
            (to_json(cleaned), session, receipt.compaction),
        )


# Whole sessions


def _forget_project(tx: Tx, scope: Scope, now: str) -> Forgotten:
    condition = sessions_in(scope)
    rows = tx.execute(f"SELECT id FROM session WHERE {condition.sql}", condition.parameters)
    sessions = [number for (number,) in rows]
    sql, paths = of_project("project", scope.project or "")
    shared = _delete_pins(tx, f"{sql} AND scope = 'project'", *paths)
    forgotten = _forget_sessions(tx, sessions, now)
    # A global pin belongs to every project; only its origin is forgotten.
    tx.execute(f"UPDATE pin SET project = NULL WHERE {sql}", paths)
    tx.execute(f"UPDATE passage SET project = NULL WHERE {sql}", paths)
    tx.execute(f"DELETE FROM announced WHERE {sql}", paths)
    return forgotten.model_copy(update={"pins": forgotten.pins + shared})


def _forget_sessions(tx: Tx, sessions: Sequence[int], now: str) -> Forgotten:
    messages = pins = 0
    kept: list[str] = []
    for session in sessions:
        raws = tx.execute("SELECT raw FROM message WHERE session = ? ORDER BY seq", (session,))
        messages += _leave_tombstone(tx, session, "session", (raw for (raw,) in raws), now)
        pins += _delete_pins(tx, "session = ? AND scope = 'session'", session)
        kept += _list_pins(tx, "session = ?", session)
        passages.delete_session(tx, session)
        tx.execute("UPDATE pin SET session = NULL WHERE session = ?", (session,))
        for table in _OWNED:
            tx.execute(f"DELETE FROM {table} WHERE session = ?", (session,))
        # The place stays, or the next reading would bring back what was forgotten.
        tx.execute("UPDATE transcript SET session = NULL WHERE session = ?", (session,))
        tx.execute("UPDATE session SET parent = NULL WHERE parent = ?", (session,))
        tx.execute("DELETE FROM session WHERE id = ?", (session,))
    return Forgotten(messages=messages, sessions=len(sessions), pins=pins, kept_pins=tuple(kept))


def _delete_pins(tx: Tx, condition: str, *parameters: str | int) -> int:
    rows = tx.execute(f"SELECT number, session FROM pin WHERE {condition}", parameters).fetchall()
    for number, session in rows:
        passages.delete(tx, session, "p", number)
        tx.execute("UPDATE pin SET superseded_by = NULL WHERE superseded_by = ?", (number,))
        tx.execute("DELETE FROM announced WHERE pin = ?", (number,))
        tx.execute("DELETE FROM pin WHERE number = ?", (number,))
    return len(rows)


def _leave_tombstone(tx: Tx, session: int, ref: str, raws: Iterable[str], now: str) -> int:
    """Leave the hash of the forgotten messages; their number."""
    digest, count = sha256(), 0
    for raw in raws:
        digest.update(raw.encode())
        count += 1
    tx.execute(
        "INSERT INTO tombstone (session, ref, sha256, at) VALUES (?, ?, ?, ?)",
        (session, ref, digest.hexdigest(), now),
    )
    return count
