"""Follows a caller's history: what is known keeps its number, what is new is appended.

Where the caller has compacted, cleared, rewound or edited its history by itself, the view shows
what it still has; the log keeps both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from mcp_compaction.compactor.lines import Seen
from mcp_compaction.compactor.workspace import MOST_TRIES, Workspace
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
from mcp_compaction.formats.identity import content_hash, hash_of
from mcp_compaction.formats.jsontext import parse_object
from mcp_compaction.model import (
    Logged,
    Message,
    NewMessage,
    Session,
    SessionInfo,
    Trimmed,
    View,
)
from mcp_compaction.ports import Batch, Placed, Recorded

_MOST_OF_HEAD = 50  # messages among which a history's head is looked for


class Followed(NamedTuple):
    """What came of a history: for each message what it is, and which are new."""

    recorded: Recorded
    seen: tuple[Seen, ...]
    newest: int  # message of the log before


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
        plan = await work.threads.run(_lay_beside, log, session, messages)
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
        masked = sum((Counter(message.masked) for message in plan.new), Counter[str]())
        seqs = tuple(one.seq for one in plan.seen if one.seq is not None)
        recorded = Recorded(seqs=seqs, new=done.new, diverged=plan.diverged, masked=masked)
        return Followed(recorded, plan.seen, placed.newest)
    raise AssertionError("unreachable")


def _lay_beside(log: Sequence[Logged], session: Session, messages: Sequence[NewMessage]) -> _Plan:
    newest = log[-1].seq if log else 0
    hashes = [content_hash(message) for message in messages]
    known = {row.content for row in log}
    ours = [
        n
        for n, message in enumerate(messages)
        if hashes[n] not in known and message.role == "user" and is_record(_first_text(message))
    ]
    said = [n for n in range(len(messages)) if n not in set(ours)]
    cut = _hashes_of_cuts(session)
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
    behind = {seq for n in ours for seq in messages_behind(_first_text(messages[n]))}
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
            # A plain message may have been taken for one of another provider's.
            others = (hash_of(shape, message.role, message.normal) for shape in FORMATS)
            contents.append(
                content if content in known else next((o for o in others if o in known), content)
            )
    return contents


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
