"""Follows a caller's history: what is known keeps its number, what is new is appended.

Where the caller has compacted, cleared, rewound or edited its history by itself, the view shows
what it still has; the log keeps both.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple

from mcp_compaction.compactor.histories import Seen
from mcp_compaction.compactor.history_matching import Placing, first_text, place_history
from mcp_compaction.compactor.workspace import MOST_ROWS, MOST_TRIES, Workspace, scope_of
from mcp_compaction.core.log.conversation import host_summary_in
from mcp_compaction.core.text.host_texts import without_host_texts
from mcp_compaction.core.window.history import (
    MOST_OF_HEAD,
    LogPlace,
    arrange,
    behind_summaries,
    find_taken,
    follow,
    head_of,
    is_in,
    members_of,
    messages_behind,
    without_stale_cuts,
)
from mcp_compaction.errors import LogMoved
from mcp_compaction.formats.prepare import count_masked_in_new
from mcp_compaction.formats.thinking import without_thinking
from mcp_compaction.model import (
    Logged,
    Message,
    NewMessage,
    Reworded,
    Run,
    Session,
    SessionInfo,
    Text,
    View,
)
from mcp_compaction.ports import Batch, Placed, Recorded


class Followed(NamedTuple):
    """A history matched with the log: for each message what it is, and which are new."""

    recorded: Recorded
    seen: tuple[Seen, ...]
    before: int  # the newest message of the log, before it came
    newest: int  # and after
    gone: tuple[Run, ...]  # messages of the log that it does not have


class _Plan(NamedTuple):
    """The messages of a history that are appended, and the view that shows it."""

    seen: tuple[Seen, ...]
    as_logged: tuple[int, ...]  # the messages that say just what the log has
    rows: tuple[NewMessage, ...]  # other words for messages that stay, then what is new
    follows: tuple[int, ...]
    view: View | None
    diverged: int | None
    newest: int  # message of the log before
    base_version: int  # of the view that it was made from
    is_all: bool  # False: more messages were edited than one transaction may take


async def follow_history(
    work: Workspace, info: SessionInfo, messages: Sequence[NewMessage], rest: Batch
) -> Followed:
    """Append what is new of a whole history, and show what the caller still has of it.

    `rest`: all that is to be stored beside the messages. After each transaction the session is
    that of a shorter history, with which the next request goes on where this one is stopped.
    """
    parts: list[Recorded] = []
    before: int | None = None
    diverged: int | None = None
    moves = 0
    while True:
        session, plan = await _hold_against_log(work, info, messages)
        if before is None:
            before, diverged = plan.newest, plan.diverged
        try:
            async for part in _append(work, info, plan, rest):
                parts.append(part)
        except LogMoved:
            moves += 1
            if moves == MOST_TRIES:
                raise
            continue
        if plan.is_all:
            break
    masked = sum((Counter(part.masked) for part in parts), Counter[str]())
    recorded = Recorded(
        seqs=tuple(one.seq for one in plan.seen if one.seq is not None),
        new=sum(part.new for part in parts),
        diverged=diverged,
        masked=masked,
        ours=tuple(n for n, one in enumerate(plan.seen) if one.seq is None),
        cut=tuple(n for n, one in enumerate(plan.seen) if not one.is_whole),
    )
    gone = (plan.view or session.view).gone
    return Followed(recorded, plan.seen, before, plan.newest + len(plan.rows), gone)


class Compared(NamedTuple):
    """A history held against what is recorded."""

    known: int  # how many messages, from the first on, are recorded
    goes_on: bool  # it has all that the caller had before, in the same words


async def compare_history(
    work: Workspace, info: SessionInfo, messages: Sequence[NewMessage]
) -> Compared:
    """Hold a whole history against what is recorded; nothing is written."""
    _, plan = await _hold_against_log(work, info, messages)
    known = sum(one.seq is None or one.seq <= plan.newest for one in plan.seen)
    return Compared(known, plan.view is None and plan.diverged is None)


async def _hold_against_log(
    work: Workspace, info: SessionInfo, messages: Sequence[NewMessage]
) -> tuple[Session, _Plan]:
    """The session as it is recorded, and what a history would change in it."""
    log = await work.store.history(info.id)
    session = await work.load(info)
    placing = await place_history(work, session, log, messages)
    back = await _go_back(work, session, log, placing)
    silent = await _find_silent(work, session, log, placing)
    return session, await work.threads.run(_lay_beside, log, session, back, placing, silent)


async def _append(
    work: Workspace, info: SessionInfo, plan: _Plan, rest: Batch
) -> AsyncIterator[Recorded]:
    """Append the rows of a plan, in as many transactions as they take; the first has the view."""
    for start in range(0, max(1, len(plan.rows)), MOST_ROWS):
        rows = plan.rows[start : start + MOST_ROWS]
        placed = Placed(
            newest=plan.newest + start,
            follows=plan.follows[start : start + MOST_ROWS],
            base_version=plan.base_version,
            view=None if start else plan.view,
            same=() if start else plan.as_logged,
        )
        batch = rest.model_copy(update={"messages": rows, "placed": placed})
        done = await work.store.append(info.id, batch, work.now())
        yield done.model_copy(update={"masked": count_masked_in_new(rows, done)})


async def _go_back(
    work: Workspace, session: Session, log: Sequence[Logged], placing: Placing
) -> Session:
    """The session as it was seen when the last message that a rewound history has was the newest.

    A caller that goes on with what it was given has no other view to go back to.
    """
    last = max((place.seq for _, place in placing.known), default=0)
    view = session.view
    newest = next((row.seq for row in reversed(log) if not is_in(view.gone, row.seq)), 0)
    if not last or last >= newest or placing.has_ours:
        return session
    pinned, late_pins = view.pinned, view.late_pins
    if view.compaction is not None and view.upto > last:
        for receipt, base in reversed(await work.store.receipts(session.info.id)):
            if base < view.version and receipt.kind != "digest" and view.upto > last:
                view = await work.store.view(session.info.id, base)
        pinned, late_pins = tuple(pin.number for pin in session.pins), ()
    view = without_stale_cuts(view).model_copy(
        update={"version": session.view.version, "pinned": pinned, "late_pins": late_pins}
    )
    return await work.load(session.info, view)


async def _find_silent(
    work: Workspace, session: Session, log: Sequence[Logged], placing: Placing
) -> set[int]:
    """The messages behind digests that the history lacks and that say nothing: what was only
    thought, and what a host has put in. Callers leave these out, and the digest tells of the rest.
    """
    newest = log[-1].seq if log else 0
    there = _list_behind(session, placing, newest).union(p.seq for _, p in placing.known)
    lacking = {seq for one in session.digests for seq in members_of(one, session)} - there
    if not lacking:
        return set()
    first, last = min(lacking), max(lacking)
    found = await work.store.originals(
        scope_of(session.info), after=first - 1, limit=last - first + 1
    )
    lacked = (one.message for one in found if one.message.seq in lacking)
    return {message.seq for message in lacked if _is_silent(message)}


def _is_silent(message: Message) -> bool:
    if message.role == "user":
        has_more = any(not isinstance(part, Text) for part in message.parts)
        return not has_more and not without_host_texts(message.text).strip()
    return without_thinking(json.loads(message.raw)) is None


def _lay_beside(
    log: Sequence[Logged], session: Session, back: Session, placing: Placing, silent: set[int]
) -> _Plan:
    """Plan what is appended of a history, and its view.

    `back`: the session as it was seen when the history was as long as it is now. `silent`: what it
    lacks of the log and has nothing to say.
    """
    newest = log[-1].seq if log else 0
    messages, known = placing.messages, placing.known
    unknown = _find_edits(log, placing)
    edits = unknown[:MOST_ROWS]
    numbers = {n: place.seq for n, place in known}  # by the place in the history
    new = [n for n in placing.said if n not in numbers] if edits == unknown else []
    first = newest + len(edits) + 1  # of what is new
    numbers |= {n: first + count for count, n in enumerate(new)}
    order = [numbers[n] for n in sorted(numbers)]
    in_history = _list_behind(session, placing, newest).union(order, silent)
    said_now = [_message_of(messages[n], numbers[n]) for n in sorted(numbers)]
    edit_rows = {seq: newest + n for n, (_, seq) in enumerate(edits, start=1)}
    reworded = _reword(log, session.view, placing, edit_rows, in_history)
    summaries = {m.seq for m in (*session.messages, *said_now) if host_summary_in(m)}
    taken = find_taken(session, in_history, summaries & in_history)
    in_history |= behind_summaries(taken, in_history, told=True)
    is_told = any(one.told for one in taken)
    head = [e.seq for e in back.view.head] if is_told else head_of(said_now[:MOST_OF_HEAD])
    view = follow(back, in_history, head, newest + len(edits) + len(new), reworded, taken)
    if view is None and back is not session:
        view = back.view
    if len(edits) + len(new) <= MOST_ROWS:  # the view comes with the first of them
        view = arrange(view, back, order, head)
    before = dict(zip(order, (0, *order), strict=False))
    return _Plan(
        seen=tuple(Seen(numbers.get(n), placing.whole[n]) for n in range(len(messages))),
        as_logged=tuple(place.seq for _, place in known if place.is_same),
        rows=(*(message for message, _ in edits), *(messages[n] for n in new)),
        follows=(*(seq - 1 for _, seq in edits), *(before[numbers[n]] for n in new)),
        view=view,
        diverged=_first_contradicted(session, view, [place for _, place in known], newest),
        newest=newest,
        base_version=session.view.version,
        is_all=edits == unknown,
    )


def _find_edits(log: Sequence[Logged], placing: Placing) -> list[tuple[NewMessage, int]]:
    """The messages that the caller words as never before, with their numbers."""
    known = {row.content for row in log}
    return [
        (placing.messages[n], place.seq)
        for n, place in placing.known
        if not place.is_same and placing.contents[n] not in known
    ]


def _reword(
    log: Sequence[Logged],
    view: View,
    placing: Placing,
    edit_rows: dict[int, int],
    in_history: set[int],
) -> tuple[Reworded, ...]:
    """The messages that the caller words otherwise than at first.

    `edit_rows`: the new messages that hold words never heard before, by the messages they reword.
    """
    first = {row.content: row.seq for row in reversed(log)}
    contents = {row.seq: row.content for row in log}
    now = {one.seq: one.words for one in view.reworded}
    for n, place in placing.known:
        content = placing.contents[n]
        if place.is_same:
            continue
        known = place.seq if contents[place.seq] == content else first.get(content)
        now[place.seq] = edit_rows.get(place.seq) or known or now.get(place.seq, place.seq)
    return tuple(
        Reworded(seq=seq, words=now[seq])
        for seq in sorted(now)
        if now[seq] != seq and seq in in_history
    )


def _list_behind(session: Session, placing: Placing, newest: int) -> set[int]:
    """The messages that stand behind the digests which a caller sends back."""
    texts = (first_text(placing.messages[n]) for n in placing.ours)
    behind = {seq for text in texts for seq in messages_behind(text, newest)}
    if placing.has_ours:  # a digest with no line is in no view, and so never comes back
        untold = (digest for digest in session.digests if not digest.sections)
        behind.update(seq for one in untold for seq in range(one.first, one.last + 1))
    there = behind.union(place.seq for _, place in placing.known)
    behind |= behind_summaries(session.view.taken, there, told=True)
    return {seq for seq in behind if seq <= newest and not is_in(session.view.gone, seq)}


def _message_of(message: NewMessage, seq: int) -> Message:
    return Message(
        seq=seq, role=message.role, parts=message.parts, shape=message.shape, raw=message.raw
    )


def _first_contradicted(
    session: Session, view: View | None, places: Sequence[LogPlace], newest: int
) -> int | None:
    """The first known message that the caller's history has no more, or has in other words."""
    edited = [place.seq for place in places if not place.is_same]
    left = [
        seq
        for first, last in (view.gone if view is not None else ())
        for seq in range(first, min(last, newest) + 1)
        if not is_in(session.view.gone, seq)
    ]
    return min((*edited, *left), default=None)
