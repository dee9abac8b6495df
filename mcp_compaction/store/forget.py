"""Remove what its owner wants gone, and all that was derived from it: the one way to lose a row.
What is left of a message is a stub, the least that keeps the conversation valid.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from hashlib import sha256
from itertools import chain

from pydantic import JsonValue

from mcp_compaction import formats
from mcp_compaction.core.log.content import text_of
from mcp_compaction.core.text.words import one_line
from mcp_compaction.errors import InputError, UnknownRef
from mcp_compaction.model import (
    Digest,
    JsonObject,
    Kept,
    Offer,
    Part,
    Receipt,
    Role,
    Shape,
    ToolCall,
    ToolResult,
    Trimmed,
    Twin,
    Twins,
    View,
)
from mcp_compaction.ports import Forgotten, Scope
from mcp_compaction.store import passages, views
from mcp_compaction.store.scope import of_project, one_session, project_of, sessions_in
from mcp_compaction.store.sessions import session_row
from mcp_compaction.store.sql import Tx, from_json, stamp, to_json

LEAST_CHARS = 8  # "yes" stands everywhere
MOST_LISTED = 200
# Signs that every program writes into JSON as they are.
_PLAIN = re.compile(r"[A-Za-z0-9_.:-]+")

FORGOTTEN = "[forgotten]"
STUB_TOKENS = 10
_OWNED = (
    *("message", "tool_call", "call_message", "section", "view", "digest", "receipt", "event"),
    *("model_call", "thinking"),
)


def twins(tx: Tx, scope: Scope, seq: int, within: Scope) -> Twins:
    """The messages that say the same or hold it whole, whatever their white space."""
    session = one_session(tx, scope)
    row = tx.execute(
        "SELECT shape, raw FROM message WHERE session = ? AND seq = ?", (session, seq)
    ).fetchone()
    if row is None:
        raise UnknownRef(f"There is no m{seq} in this session; look at its messages.")
    wanted = words_of(row["shape"], row["raw"])
    if len(wanted.replace(FORGOTTEN, "").strip()) < LEAST_CHARS:
        return Twins()
    condition = sessions_in(within)
    rows = tx.execute(
        "SELECT message.seq, message.shape, message.raw, session.name, session.project"
        " FROM message JOIN session ON session.id = message.session"
        f" WHERE {condition.sql} AND NOT (message.session = ? AND message.seq = ?)"
        " AND instr(message.raw, ?) > 0"
        " ORDER BY session.id = ? DESC, session.project, session.id, message.seq",
        (*condition.parameters, session, seq, rarest_run(wanted), session),
    )
    found = [
        Twin(project=project_of(project), session=name, ref=f"m{number}")
        for number, shape, raw, name, project in rows
        if wanted in words_of(shape, raw)
    ]
    return Twins(found=tuple(found[:MOST_LISTED]), more=max(0, len(found) - MOST_LISTED))


def rarest_run(words: str) -> str:
    """The longest run of plain signs: what does not hold it need not be read."""
    return max(_PLAIN.findall(words), key=len, default="")


def words_of(shape: Shape, raw: str) -> str:
    """The words of a message, all in one line."""
    _, parts = formats.read(shape, raw)
    return one_line(" ".join(_texts(parts)))


def _texts(parts: Iterable[Part]) -> Iterator[str]:
    for part in parts:
        if isinstance(part, ToolCall):
            yield from _strings(part.arguments)
        else:
            yield text_of(part)


def _strings(value: JsonValue) -> Iterator[str]:
    match value:
        case str():
            yield value
        case list():
            for inner in value:
                yield from _strings(inner)
        case dict():
            for inner in value.values():
                yield from _strings(inner)
        case _:
            return


def stub(shape: Shape, role: Role, parts: Sequence[Part], raw: str) -> str:
    """A message of that shape and role that says nothing but keeps its tool calls paired."""
    calls = [part for part in parts if isinstance(part, ToolCall)]
    results = [part for part in parts if isinstance(part, ToolResult)]
    match shape:
        case "anthropic":
            value = _anthropic(role, calls, results)
        case "openai":
            value = _openai(role, calls, results)
        case "responses":
            value = _responses(role, calls, results, raw)
    return json.dumps(value, separators=(",", ":"))


def _anthropic(role: Role, calls: list[ToolCall], results: list[ToolResult]) -> JsonObject:
    blocks: list[JsonValue] = []
    for call in calls:
        blocks.append({"type": "tool_use", "id": call.id, "name": call.name, "input": {}})
    for result in results:
        blocks.append({"type": "tool_result", "tool_use_id": result.call, "content": FORGOTTEN})
    return {"role": role, "content": blocks or FORGOTTEN}


def _openai(role: Role, calls: list[ToolCall], results: list[ToolResult]) -> JsonObject:
    message: JsonObject = {"role": role, "content": FORGOTTEN}
    if calls:
        message["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": "{}"},
            }
            for call in calls
        ]
    if results:
        message["tool_call_id"] = results[0].call
    return message


def _responses(
    role: Role, calls: list[ToolCall], results: list[ToolResult], raw: str
) -> JsonObject:
    if not calls and not results:
        return {"type": "message", "role": role, "content": FORGOTTEN}
    kind: str = json.loads(raw)["type"]  # a call's type and its output's must go on agreeing
    if results:
        return {"type": kind, "call_id": results[0].call, "output": FORGOTTEN}
    said: JsonObject = {"input": ""} if kind == "custom_tool_call" else {"arguments": "{}"}
    return {"type": kind, "call_id": calls[0].id, "name": calls[0].name, **said}


def remove_lines(digest: Digest, seq: int) -> Digest:
    """The digest without the lines that came, or may have come, from a message."""
    covers = digest.first <= seq <= digest.last

    def stays(refs: Sequence[str]) -> bool:
        named = [number for ref in refs for number in _spans_of(ref)]
        return not any(first <= seq <= last for first, last in named) and (
            bool(named) or not covers
        )

    sections = tuple(
        (name, tuple(item for item in items if stays(item.refs))) for name, items in digest.sections
    )
    index = tuple(item for item in digest.index if stays(item.refs))
    return digest.model_copy(update={"sections": sections, "index": index})


def _spans_of(ref: str) -> list[tuple[int, int]]:
    """The spans of messages a ref names: `m42`, `m12..m40`."""
    return [
        (int(first), int(last or first))
        for first, last in re.findall(r"\bm(\d+)(?:\.\.m?(\d+))?", ref)
    ]


def count_lines(digest: Digest) -> int:
    """The lines of a digest and its index."""
    return sum(len(items) for _, items in digest.sections) + len(digest.index)


def clean_view(view: View, seq: int) -> View:
    """A view without cuts and excerpts of a message; the same one where it has none."""
    shows = any(promoted.seq == seq for promoted in view.promoted)
    if not shows and not any(
        _is_trimmed(entry, seq) for entry in (*view.head, *view.body, *view.since)
    ):
        return view
    # The stub is shorter than any cut of it, so it is shown whole.
    return view.model_copy(
        update={
            "head": tuple(Kept(seq=seq) if _is_trimmed(e, seq) else e for e in view.head),
            "body": tuple(Kept(seq=seq) if _is_trimmed(e, seq) else e for e in view.body),
            "since": tuple(e for e in view.since if e.seq != seq),
            "promoted": tuple(p for p in view.promoted if p.seq != seq),
        }
    )


def _is_trimmed(entry: object, seq: int) -> bool:
    return isinstance(entry, Trimmed) and entry.seq == seq


def clean_receipt(receipt: Receipt, seq: int) -> Receipt:
    """A receipt without what it says about a message: it may be a quotation."""
    named = re.compile(rf"\bm{seq}\b")
    return receipt.model_copy(
        update={
            "notes": tuple(FORGOTTEN if named.search(n) else n for n in receipt.notes),
            "shortfall": FORGOTTEN if named.search(receipt.shortfall or "") else receipt.shortfall,
            "offer": _without_candidates(receipt.offer, f"m{seq}"),
        }
    )


def _without_candidates(offer: Offer, ref: str) -> Offer:
    kept = tuple(candidate for candidate in offer.candidates if candidate.ref != ref)
    return offer.model_copy(update={"candidates": kept})


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
