"""Follows a caller's history: what is known keeps its number, what is new is appended.

Where the caller has compacted, cleared, rewound or edited its history by itself, the view shows
what it still has; the log keeps both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from mcp_compaction.compactor.lines import Seen
from mcp_compaction.compactor.workspace import MOST_TRIES, Workspace, scope_of
from mcp_compaction.core.log.pinned import PINNED_LABEL, is_pinned_block
from mcp_compaction.core.window.history import (
    Given,
    Place,
    find_places,
    follow,
    head_of,
    is_in,
    is_record,
    messages_behind,
)
from mcp_compaction.errors import LogMoved
from mcp_compaction.formats import FORMATS, normalize
from mcp_compaction.formats.identity import content_hash, hash_of, normal_of_essence
from mcp_compaction.formats.jsontext import parse_object
from mcp_compaction.formats.prepare import count_masked_in_new
from mcp_compaction.model import (
    Logged,
    Message,
    NewMessage,
    Pin,
    Run,
    Session,
    SessionInfo,
    Trimmed,
    View,
)
from mcp_compaction.ports import Batch, Placed, Recorded

_NOTE = re.compile(r"\[[^\[\]\n]*\b(?:m\d+|recall_archived)\b[^\[\]\n]*\]")
_MOST_VIEWS = 10  # earlier views in which a cut is looked for
_MOST_OF_HEAD = 50  # messages among which a history's head is looked for


class Followed(NamedTuple):
    """What came of a history: for each message what it is, and which are new."""

    recorded: Recorded
    seen: tuple[Seen, ...]
    newest: int  # message of the log before
    gone: tuple[Run, ...]  # messages of the log that it does not have


class _Plan(NamedTuple):
    """A history laid beside the log."""

    seen: tuple[Seen, ...]
    same: tuple[int, ...]
    new: tuple[NewMessage, ...]  # the last of them may be other words for messages that stay
    follows: tuple[int, ...]
    view: View | None
    diverged: int | None


async def follow_history(
    work: Workspace, info: SessionInfo, messages: Sequence[NewMessage], rest: Batch
) -> Followed:
    """Append what is new of a whole history, and show what the caller still has of it.

    `rest`: all that is to be stored beside the messages.
    """
    for attempt in range(1, MOST_TRIES + 1):
        log = await work.store.history(info.id)
        session = await work.load(info)
        cuts = await _find_cuts(work, session, log, messages)
        ended = await work.store.pins(scope_of(info), work.now(), released=True)
        pins = (*session.pins, *ended)
        plan = await work.threads.run(_lay_beside, log, session, messages, cuts, pins)
        placed = Placed(
            newest=log[-1].seq if log else 0,
            follows=plan.follows,
            base_version=session.view.version,
            view=plan.view,
            same=plan.same,
        )
        batch = rest.model_copy(update={"messages": plan.new, "placed": placed})
        try:
            done = await work.store.append(info.id, batch, work.now())
        except LogMoved:
            if attempt == MOST_TRIES:
                raise
            continue
        masked = count_masked_in_new(plan.new, done)
        seqs = tuple(one.seq for one in plan.seen if one.seq is not None)
        recorded = Recorded(seqs=seqs, new=done.new, diverged=plan.diverged, masked=masked)
        return Followed(recorded, plan.seen, placed.newest, (plan.view or session.view).gone)
    raise AssertionError("unreachable")


class Compared(NamedTuple):
    """A history held against what is recorded, with nothing written."""

    known: int  # how many messages, from the first on, are recorded
    goes_on: bool  # it has all that the caller had before, in the same words


async def compare_history(
    work: Workspace, info: SessionInfo, messages: Sequence[NewMessage]
) -> Compared:
    """Hold a whole history against what is recorded; nothing is written."""
    log = await work.store.history(info.id)
    session = await work.load(info)
    cuts = await _find_cuts(work, session, log, messages)
    ended = await work.store.pins(scope_of(info), work.now(), released=True)
    pins = (*session.pins, *ended)
    plan = await work.threads.run(_lay_beside, log, session, messages, cuts, pins)
    newest = log[-1].seq if log else 0
    known = sum(one.seq is None or one.seq <= newest for one in plan.seen)
    return Compared(known, plan.view is None and plan.diverged is None)


async def _find_cuts(
    work: Workspace, session: Session, log: Sequence[Logged], messages: Sequence[NewMessage]
) -> dict[str, int]:
    """The messages that a view shows shorter, by the hash of what it shows.

    A caller that goes on with what it was given may have cuts that the view shows no more.
    """
    known = {row.content for row in log}
    found = await work.threads.run(_hashes_of_cuts, session)
    view = session.view
    noted = {content_hash(message) for message in messages if _has_note(message)} - known
    for version in range(view.version - 1, max(0, view.version - _MOST_VIEWS), -1):
        if noted <= found.keys():
            break
        earlier = await work.store.view(session.info.id, version)
        seen = await work.store.load(session.info.id, work.now(), earlier)
        found = {**await work.threads.run(_hashes_of_cuts, seen), **found}
    return found


def _has_note(message: NewMessage) -> bool:
    """Whether a note of ours may stand in a message, as in one that was cut."""
    said = (part for part in message.parts if part.kind == "text" or part.kind == "result")
    return any(_NOTE.search(part.text) for part in said)


def _lay_beside(
    log: Sequence[Logged],
    session: Session,
    messages: Sequence[NewMessage],
    cut: dict[str, int],
    pins: Sequence[Pin],
) -> _Plan:
    newest = log[-1].seq if log else 0
    hashes = [content_hash(message) for message in messages]
    known = {row.content for row in log}
    ours = [
        n
        for n, message in enumerate(messages)
        if hashes[n] not in known and session.view.is_begun and _is_ours_of(message, pins)
    ]
    said = [n for n in range(len(messages)) if n not in set(ours)]
    contents = _contents_of(log, messages, hashes, cut)
    places = find_places(
        log, session.view.gone, [Given(messages[n].role, contents[n]) for n in said]
    )
    new = [messages[n] for n in said[len(places) :]]
    numbers = [*(place.seq for place in places), *range(newest + 1, newest + 1 + len(new))]
    # Other words for a message that stays: the log keeps both, the view shows the caller's own.
    edits = [
        (messages[n], place.seq)
        for n, place in zip(said, places, strict=False)
        if not place.is_same and contents[n] not in known
    ]
    behind = {seq for n in ours for seq in messages_behind(_first_text(messages[n]), newest)}
    there = {s for s in behind if s <= newest and not is_in(session.view.gone, s)}
    head = head_of(
        [_message_of(messages[n], seq) for n, seq in zip(said, numbers, strict=True)][
            :_MOST_OF_HEAD
        ]
    )
    view = follow(session, there.union(numbers), head, newest + len(new) + len(edits))
    seqs = dict(zip(said, numbers, strict=True))
    return _Plan(
        seen=tuple(Seen(seqs.get(n), hashes[n] not in cut) for n in range(len(messages))),
        same=tuple(place.seq for place in places if place.is_same),
        new=(*new, *(message for message, _ in edits)),
        follows=(*_chain(places, newest, len(new)), *(seq - 1 for _, seq in edits)),
        view=view,
        diverged=_first_contradicted(session, view, places, newest),
    )


def _chain(places: Sequence[Place], newest: int, new: int) -> list[int]:
    """The message that each new one follows."""
    last = places[-1].seq if places else 0
    return [last, *range(newest + 1, newest + new)][:new]


def _contents_of(
    log: Sequence[Logged],
    messages: Sequence[NewMessage],
    hashes: Sequence[str],
    cut: dict[str, int],
) -> list[str]:
    """The contents to look for: a host's id, or our cut of a message, means the known one."""
    by_id = {row.host_id: row.content for row in log if row.host_id is not None}
    by_seq = {row.seq: row.content for row in log}
    known = set(by_seq.values())
    contents: list[str] = []
    for message, content in zip(messages, hashes, strict=True):
        if message.host_id in by_id:
            contents.append(by_id[message.host_id])
        elif content in cut:
            contents.append(by_seq[cut[content]])
        else:
            others = _other_hashes(message) if known and content not in known else ()
            contents.append(next((other for other in others if other in known), content))
    return contents


def _other_hashes(message: NewMessage) -> Iterator[str]:
    """The hashes that a message has in the log when more was known of it, or less.

    A plain text fits several shapes until a call tells which it is; an answer that was recorded
    before the caller sent it back may have other keys.
    """
    for normal in (message.normal, normal_of_essence(message.raw, message.shape)):
        for shape in FORMATS:
            yield hash_of(shape, message.role, normal)


def _hashes_of_cuts(session: Session) -> dict[str, int]:
    """The messages that the view shows shorter, by the hash of what it shows."""
    view = session.view
    messages = {message.seq: message for message in session.messages}
    found: dict[str, int] = {}
    for entry in (*view.head, *view.body, *view.since):
        if isinstance(entry, Trimmed):
            message = messages[entry.seq]
            form = FORMATS[message.shape]
            original = parse_object(message.raw, message.ref)
            # As a view of own objects shows it, and as one of stored ones does.
            for shown in (form.cut(original, entry.cuts), *form.keep(original, entry.cuts)):
                found[hash_of(message.shape, message.role, normalize(shown))] = entry.seq
    return found


def is_ours(message: NewMessage) -> bool:
    """Whether a message may be a record of ours that a caller sends back."""
    return message.role == "user" and len(message.parts) == 1 and is_record(_first_text(message))


def _is_ours_of(message: NewMessage, pins: Sequence[Pin]) -> bool:
    """Whether a message is a record of ours; the pinned block only if it is of these pins."""
    text = _first_text(message)
    is_block = text.startswith(PINNED_LABEL)
    return is_ours(message) and (not is_block or is_pinned_block(text, pins))


def _first_text(message: NewMessage) -> str:
    return next((part.text for part in message.parts if part.kind == "text"), "")


def _message_of(message: NewMessage, seq: int) -> Message:
    return Message(
        seq=seq, role=message.role, parts=message.parts, shape=message.shape, raw=message.raw
    )


def _first_contradicted(
    session: Session, view: View | None, places: Sequence[Place], newest: int
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
