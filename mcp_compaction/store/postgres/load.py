"""One session as it is at one moment: everything a decision needs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from mcp_compaction.model import (
    Calibration,
    Digest,
    Digested,
    Message,
    Receipt,
    Sections,
    Session,
    View,
)
from mcp_compaction.ports import Scope, WindowCount
from mcp_compaction.store.columns import from_json
from mcp_compaction.store.load import list_shown, seqs_not_shown, seqs_shown_whole
from mcp_compaction.store.postgres import pins, views
from mcp_compaction.store.postgres.database import Row, Tx
from mcp_compaction.store.postgres.log import section_row
from mcp_compaction.store.postgres.messages import MESSAGE_COLUMNS, read_messages, to_message
from mcp_compaction.store.postgres.sessions import session_row
from mcp_compaction.store.sessions import info_of


def load(tx: Tx, session: int, now: datetime, view: View | None) -> Session:
    """The session at this moment, seen through its newest view or through the one given."""
    row = session_row(tx, session)
    seen = views.view(tx, session, row["view_version"]) if view is None else view
    return Session(
        **_frame_of(tx, row, now),
        sections=_read_sections(tx, session),
        view=seen,
        messages=_read_messages_shown(tx, session, seen),
        digests=_read_digests_shown(tx, session, seen),
        next_digest=row["next_digest"],
        next_compaction=row["next_compaction"],
        last_compaction=_read_last_receipt(tx, session),
    )


def _frame_of(tx: Tx, row: Row, now: datetime) -> dict[str, Any]:
    """What a session is besides what it shows."""
    sections = section_row(tx, row["id"])
    in_force = pins.pins(tx, Scope(project=row["project"], session=row["id"]), now)
    return {
        "info": info_of(row),
        "section_tokens": 0 if sections is None else sections["section_tokens"],
        "memory_tokens": 0 if sections is None else sections["memory_tokens"],
        "pins": tuple(pin for pin in in_force if pin.kind != "note"),
        "calibration": Calibration(counted=row["counted"], reported=row["reported"]),
    }


def _read_sections(tx: Tx, session: int) -> Sections:
    sections = section_row(tx, session)
    return Sections() if sections is None else from_json(Sections, sections["json"])


def count_window(tx: Tx, session: int, now: datetime, known: WindowCount | None) -> WindowCount:
    """The count of a window; where its view is the known one, only what came since is read."""
    row = session_row(tx, session)
    if known is None or known.session.view.version != row["view_version"]:
        known = _count_view(tx, row)
    found = tx.one(
        "SELECT max(seq) AS upto, count(*) AS messages, coalesce(sum(tokens), 0)::bigint AS tokens"
        " FROM message WHERE owner = %(owner)s AND session = %(session)s AND seq > %(after)s"
        f" AND {_STILL_THERE}",
        session=session,
        after=known.upto,
        **_runs_of(known.session.view),
    )
    found = found or {"upto": None, "messages": 0, "tokens": 0}
    return WindowCount(
        session=known.session.model_copy(update=_frame_of(tx, row, now)),
        upto=found["upto"] or known.upto,
        messages=known.messages + found["messages"],
        tokens=known.tokens + found["tokens"],
    )


def _count_view(tx: Tx, row: Row) -> WindowCount:
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
    of_digests = tuple(entry for entry in view.body if isinstance(entry, Digested))
    return WindowCount(
        session=Session(
            info=info_of(row),
            view=view.model_copy(update={"head": (), "body": of_digests}),
            digests=_read_digests_shown(tx, session, view),
        ),
        upto=view.upto,
        messages=len(shown.kept) + len(shown.trimmed),
        tokens=kept + sum(entry.tokens for entry in shown.trimmed) - saved,
    )


def _sum_tokens(tx: Tx, session: int, seqs: list[int]) -> int:
    """The tokens of the messages with these numbers, each as often as it is named."""
    if not seqs:
        return 0
    row = tx.one(
        "SELECT coalesce(sum(tokens), 0)::bigint AS tokens FROM unnest(%(seqs)s::bigint[])"
        " AS named (seq) JOIN message ON message.owner = %(owner)s"
        " AND message.session = %(session)s AND message.seq = named.seq",
        seqs=seqs,
        session=session,
    )
    return 0 if row is None else row["tokens"]


# In the caller's history, as far as the view knows it.
_STILL_THERE = (
    "NOT EXISTS (SELECT 1 FROM unnest(%(firsts)s::bigint[], %(lasts)s::bigint[])"
    " AS run (first, last) WHERE message.seq BETWEEN run.first AND run.last)"
)


def _runs_of(view: View) -> dict[str, list[int]]:
    return {"firsts": [first for first, _ in view.gone], "lasts": [last for _, last in view.gone]}


def _read_messages_shown(tx: Tx, session: int, view: View) -> tuple[Message, ...]:
    """The messages that a view shows, in the words that the caller has for them now."""
    shown = list_shown(view)
    named = {*shown.kept, *(entry.seq for entry in shown.trimmed)}
    before = read_messages(tx, session, sorted(s for s in named if s <= view.upto))
    rows = tx.all(
        f"SELECT {MESSAGE_COLUMNS} FROM message WHERE owner = %(owner)s"
        f" AND session = %(session)s AND seq > %(after)s AND {_STILL_THERE} ORDER BY seq",
        session=session,
        after=view.upto,
        **_runs_of(view),
    )
    messages = (*before, *map(to_message, rows))
    if not view.reworded:
        return messages
    words = read_messages(tx, session, [one.words for one in view.reworded])
    said = {message.seq: message for message in words}
    now = {one.seq: said[one.words] for one in view.reworded}
    return tuple(
        now[m.seq].model_copy(update={"seq": m.seq}) if m.seq in now else m for m in messages
    )


def _read_digests_shown(tx: Tx, session: int, view: View) -> tuple[Digest, ...]:
    rows = tx.all(
        "SELECT json FROM digest WHERE owner = %(owner)s AND session = %(session)s"
        " AND number = ANY(%(numbers)s) ORDER BY number",
        session=session,
        numbers=list_shown(view).digests,
    )
    return tuple(from_json(Digest, row["json"]) for row in rows)


def _read_last_receipt(tx: Tx, session: int) -> Receipt | None:
    row = tx.one(
        "SELECT json FROM receipt WHERE owner = %(owner)s AND session = %(session)s"
        " ORDER BY number DESC LIMIT 1",
        session=session,
    )
    return None if row is None else from_json(Receipt, row["json"])


def not_shown(tx: Tx, session: int, seqs: Sequence[int]) -> tuple[int, ...]:
    """The messages of these that the newest view no longer shows; none without a compaction."""
    view = _newest_view(tx, session)
    return () if view is None else seqs_not_shown(view, seqs)


def shown_whole(tx: Tx, session: int, seqs: Sequence[int]) -> tuple[int, ...]:
    """The messages of these that the newest view shows whole; none without a compaction."""
    view = _newest_view(tx, session)
    return () if view is None else seqs_shown_whole(view, seqs)


def _newest_view(tx: Tx, session: int) -> dict[str, Any] | None:
    row = tx.one(
        "SELECT view.json FROM view JOIN session ON session.owner = %(owner)s"
        " AND view.session = session.id AND view.version = session.view_version"
        " WHERE view.owner = %(owner)s AND session.id = %(session)s",
        session=session,
    )
    return None if row is None else json.loads(row["json"])
