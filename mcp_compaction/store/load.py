"""One session as it is at one moment: everything a decision needs."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from mcp_compaction.model import (
    Calibration,
    Digest,
    Digested,
    Kept,
    Message,
    Receipt,
    Sections,
    Session,
    Trimmed,
    View,
)
from mcp_compaction.ports import Past, Scope, WindowCount
from mcp_compaction.store import views
from mcp_compaction.store.align import MESSAGE_COLUMNS, message_rows, to_message
from mcp_compaction.store.log import count_answers, section_row
from mcp_compaction.store.sessions import events, session_info, session_row
from mcp_compaction.store.sql import StoredRow, Tx, from_json, lost_error


def load(tx: Tx, session: int, now: datetime, view: View | None = None) -> Session:
    """The session at this moment, seen through its newest view or through the one given."""
    row = session_row(tx, session)
    seen = views.view(tx, session, row["view_version"]) if view is None else view
    sections = section_row(tx, session)
    in_force = views.pins(tx, Scope(project=row["project"], session=session), now)
    return Session(
        info=session_info(tx, session),
        sections=Sections() if sections is None else from_json(Sections, sections["json"]),
        section_tokens=0 if sections is None else sections["section_tokens"],
        memory_tokens=0 if sections is None else sections["memory_tokens"],
        view=seen,
        messages=_read_messages_shown(tx, session, seen),
        digests=_read_digests_shown(tx, session, seen),
        pins=tuple(pin for pin in in_force if pin.kind != "note"),
        calibration=Calibration(counted=row["counted"], reported=row["reported"]),
        next_digest=row["next_digest"],
        next_compaction=row["next_compaction"],
        last_compaction=_read_last_receipt(tx, session),
    )


def load_with_past(
    tx: Tx, session: int, now: datetime, view: View | None = None
) -> tuple[Session, Past]:
    """A session and what happened to it, from one moment."""
    scope = Scope(project=session_row(tx, session)["project"], session=session)
    past = Past(
        events=events(tx, session),
        pins=views.pins(tx, scope, now),
        pins_ever=views.pins(tx, scope, now, released=True),
        receipts=tuple(receipt for receipt, _ in views.receipts(tx, session)),
        answers=count_answers(tx, session),
    )
    return load(tx, session, now, view), past


def load_change(
    tx: Tx, session: int, now: datetime, wants_earlier: Callable[[Session], bool]
) -> tuple[Session, Session | None]:
    """A session, and where that is wanted of it, as the view before its newest shows it."""
    loaded = load(tx, session, now)
    if not wants_earlier(loaded):
        return loaded, None
    earlier = views.view(tx, session, max(0, loaded.view.version - 1))
    return loaded, load(tx, session, now, earlier)


def count_window(
    tx: Tx, session: int, now: datetime, known: WindowCount | None = None
) -> WindowCount:
    """The count of a window; where its view is the known one, only what came since is read.

    The tokens of a recorded message change only by a forget, and that gives the view a new version.
    """
    row = session_row(tx, session)
    if known is None or known.session.view.version != row["view_version"]:
        known = _count_view(tx, row)
    upto, messages, tokens = tx.execute(
        "SELECT max(seq), count(*), CAST(coalesce(sum(tokens), 0) AS BIGINT) FROM message"
        f" WHERE session = ? AND seq > ? AND {_STILL_THERE}",
        (session, known.upto, _runs_text(known.session.view)),
    ).fetchone()
    sections = section_row(tx, session)
    in_force = views.pins(tx, Scope(project=row["project"], session=session), now)
    frame = known.session.model_copy(
        update={
            "info": session_info(tx, session),
            "section_tokens": 0 if sections is None else sections["section_tokens"],
            "memory_tokens": 0 if sections is None else sections["memory_tokens"],
            "pins": tuple(pin for pin in in_force if pin.kind != "note"),
            "calibration": Calibration(counted=row["counted"], reported=row["reported"]),
        }
    )
    return WindowCount(
        session=frame,
        upto=upto or known.upto,
        messages=known.messages + messages,
        tokens=known.tokens + tokens,
        news=views.unannounced_pins(tx, row["project"], session, now),
    )


def _count_view(tx: Tx, row: StoredRow) -> WindowCount:
    """The count of what a session's newest view names; nothing that came after it."""
    session: int = row["id"]
    view = views.view(tx, session, row["view_version"])
    shown = list_shown(view)
    words = {one.seq: one.words for one in view.reworded}
    kept = _sum_tokens(tx, session, [words.get(seq, seq) for seq in shown.kept])
    cut = _sum_tokens(tx, session, [words.get(e.seq, e.seq) for e in view.since])
    saved = cut - sum(entry.tokens for entry in view.since)
    edited = [one for one in view.reworded if one.seq > view.upto]
    saved += _sum_tokens(tx, session, [one.seq for one in edited])
    saved -= _sum_tokens(tx, session, [one.words for one in edited])
    return WindowCount(
        session=Session(
            info=session_info(tx, session),
            view=view.model_copy(update={"head": ()}),
            digests=_read_digests_shown(tx, session, view),
        ),
        upto=view.upto,
        messages=len(shown.kept) + len(shown.trimmed),
        tokens=kept + sum(entry.tokens for entry in shown.trimmed) - saved,
    )


def _sum_tokens(tx: Tx, session: int, seqs: list[int]) -> int:
    """The tokens of the messages with these numbers, each as often as it is named."""
    (tokens,) = tx.execute(
        "SELECT CAST(coalesce(sum(tokens), 0) AS BIGINT) FROM json_each(?) AS named"
        " CROSS JOIN message ON message.session = ? AND message.seq = CAST(named.value AS BIGINT)",
        (str(seqs), session),
    ).fetchone()
    return tokens


# In the caller's history, as far as the view knows it.
_STILL_THERE = (
    "NOT EXISTS (SELECT 1 FROM json_each(?) AS run"
    " WHERE message.seq BETWEEN CAST(json_extract(run.value, '$[0]') AS BIGINT)"
    " AND CAST(json_extract(run.value, '$[1]') AS BIGINT))"
)


def _runs_text(view: View) -> str:
    return json.dumps(view.gone)


class ShownEntries(NamedTuple):
    """The entries of a view: messages whole, messages cut, digests."""

    kept: list[int]
    trimmed: list[Trimmed]
    digests: list[int]


def list_shown(view: View) -> ShownEntries:
    """The entries of a view by their kinds."""
    shown = ShownEntries([], [], [])
    for entry in (*view.head, *view.body):
        match entry:
            case Kept(seq=seq):
                shown.kept.append(seq)
            case Trimmed():
                shown.trimmed.append(entry)
            case Digested(digest=number):
                shown.digests.append(number)
    return shown


def _read_messages_shown(tx: Tx, session: int, view: View) -> tuple[Message, ...]:
    """The messages that a view shows, in the words that the caller has for them now."""
    messages = tuple(map(to_message, _read_rows_shown(tx, session, view)))
    if not view.reworded:
        return messages
    rows = message_rows(tx, session, [one.words for one in view.reworded])
    said = {message.seq: message for message in map(to_message, rows)}
    now = {one.seq: said[one.words] for one in view.reworded}
    return tuple(
        now[m.seq].model_copy(update={"seq": m.seq}) if m.seq in now else m for m in messages
    )


def _read_rows_shown(tx: Tx, session: int, view: View) -> list[StoredRow]:
    shown = list_shown(view)
    named = {*shown.kept, *(entry.seq for entry in shown.trimmed)}
    before = message_rows(tx, session, sorted(s for s in named if s <= view.upto))
    since = tx.execute(
        f"SELECT {MESSAGE_COLUMNS} FROM message WHERE session = ? AND seq > ?"
        f" AND {_STILL_THERE} ORDER BY seq",
        (session, view.upto, _runs_text(view)),
    )
    return [*before, *since]


def _read_digests_shown(tx: Tx, session: int, view: View) -> tuple[Digest, ...]:
    shown = set(list_shown(view).digests)
    rows = tx.execute(
        "SELECT json FROM digest WHERE session = ?"
        " AND number IN (SELECT value FROM json_each(?)) ORDER BY number",
        (session, str(sorted(shown))),
    ).fetchall()
    if len(rows) < len(shown):
        raise lost_error(f"The view of session {session} shows a digest that is lost")
    return tuple(from_json(Digest, text) for (text,) in rows)


def _read_last_receipt(tx: Tx, session: int) -> Receipt | None:
    row = tx.execute(
        "SELECT json FROM receipt WHERE session = ? ORDER BY number DESC LIMIT 1", (session,)
    ).fetchone()
    return None if row is None else from_json(Receipt, row[0])


def not_shown(tx: Tx, session: int, seqs: Sequence[int]) -> tuple[int, ...]:
    """The messages of these that the newest view no longer shows; none without a compaction."""
    view = _newest_view(tx, session)
    return () if view is None else seqs_not_shown(view, seqs)


def seqs_not_shown(view: dict[str, Any], seqs: Sequence[int]) -> tuple[int, ...]:
    """The messages of these that a view, as JSON, does not show."""
    shown = {entry.get("seq") for entry in (*view["head"], *view["body"])} | _put_back(view)
    return tuple(sorted({seq for seq in seqs if not (seq in shown or _follows(view, seq))}))


def shown_whole(tx: Tx, session: int, seqs: Sequence[int]) -> tuple[int, ...]:
    """The messages of these that the newest view shows whole; none without a compaction."""
    view = _newest_view(tx, session)
    return () if view is None else seqs_shown_whole(view, seqs)


def seqs_shown_whole(view: dict[str, Any], seqs: Sequence[int]) -> tuple[int, ...]:
    """The messages of these that a view, as JSON, shows whole."""
    entries = (*view["head"], *view["body"])
    whole = {entry["seq"] for entry in entries if entry["kind"] == "kept"} | _put_back(view)
    cut = {entry["seq"] for entry in view.get("since", ())}
    return tuple(
        sorted({seq for seq in seqs if seq in whole or (seq not in cut and _follows(view, seq))})
    )


def _newest_view(tx: Tx, session: int) -> dict[str, Any] | None:
    """The newest view as JSON: every recall asks, and to check its many cuts takes far longer."""
    row = tx.execute(
        "SELECT json FROM view JOIN session ON view.session = session.id"
        " AND view.version = session.view_version WHERE session.id = ?",
        (session,),
    ).fetchone()
    return None if row is None else json.loads(row["json"])


def _put_back(view: dict[str, Any]) -> set[int]:
    return {one["seq"] for one in view["promoted"] if one["by"] == "wanted"}


def _follows(view: dict[str, Any], seq: int) -> bool:
    """Whether a message came after all that the view has entries for, and is still there."""
    gone = view.get("gone", ())
    return seq > view["upto"] and not any(first <= seq <= last for first, last in gone)
