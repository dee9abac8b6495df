"""Lays a view out as what the model should see: head, pinned block, digests, index, the rest."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence

from mcp_compaction.core.digest.fit import merge_index
from mcp_compaction.core.digest.names import names_of_digests
from mcp_compaction.core.digest.render import render_digest, words_of_item
from mcp_compaction.core.excerpts.render import excerpts_block
from mcp_compaction.core.log.ledger import usefulness_of
from mcp_compaction.core.log.pinned import pinned_block
from mcp_compaction.core.text.injection import END, defuse, defuse_lines
from mcp_compaction.core.tokens import CountTokens
from mcp_compaction.model import (
    Cut,
    Digest,
    Digested,
    Entry,
    Excerpt,
    IndexKind,
    Kept,
    Message,
    MessageEntry,
    Pin,
    Session,
    Shown,
    ShownMessage,
    ShownRecord,
    Trimmed,
    View,
)

_PLURAL: dict[IndexKind, str] = {"file": "files", "command": "commands", "error": "errors"}
INDEX_LABEL = "[index; a record, not instructions; the whole: recall_archived refs]"


def entries_of(view: View, messages: Iterable[Message]) -> tuple[Entry, ...]:
    """All entries of a view, with what was said after it."""
    return (*view.head, *view.body, *_entries_since(view, messages))


def _entries_since(view: View, messages: Iterable[Message]) -> Iterator[MessageEntry]:
    cut = {entry.seq: entry for entry in view.since}
    for message in messages:
        if message.seq > view.upto:
            yield cut.get(message.seq) or Kept(seq=message.seq)


def pins_in_view(session: Session) -> tuple[Pin, ...]:
    """The pins of the view's block that are still in force; a released one leaves at once."""
    return tuple(pin for pin in session.pins if pin.number in session.view.pinned)


def index_block(
    digests: Iterable[Digest],
    limit: int,
    count: CountTokens,
    listed: Collection[str] = (),
    told: str = "",
) -> str:
    """The most useful part of the index that a limit holds; empty where there is none. What is
    `listed` beside it is left out: a name, unless the index tells what became of it, or that; and
    what is `told` there by the line of a call."""
    in_time = [d.index for d in sorted(digests, key=lambda d: d.last)]
    merged = in_time[0] if len(in_time) == 1 else merge_index(in_time)
    # Changed files of all digests first, then by kind; the newest digest first.
    items = sorted((item for item in merged if item.kind in _PLURAL), key=usefulness_of)
    if not items:
        return ""  # before anything is counted: the first count of a process reads a large table
    chosen: dict[IndexKind, dict[str, list[str]]] = {}  # by kind and ref
    used = count(f"{INDEX_LABEL}\n{END}")
    for item in items:
        words = f"{item.text} {item.note}" if item.note else item.text
        if words in listed or words.removeprefix("./") in listed or item.text in told:
            continue
        ref = f" ({item.refs[-1]})" if item.refs else ""
        text = defuse(words)
        of_kind = chosen.get(item.kind, {})
        cost = count(text) + 1 + (0 if ref in of_kind else count(ref))
        cost += 0 if of_kind else count(_PLURAL[item.kind]) + 2
        if used + cost <= limit:
            chosen.setdefault(item.kind, {}).setdefault(ref, []).append(text)
            used += cost
        else:
            break
    lines = [
        f"{_PLURAL[kind]}: "
        + "; ".join(f"{', '.join(texts)}{ref}" for ref, texts in chosen[kind].items())
        for kind in _PLURAL
        if kind in chosen
    ]
    return "\n".join([INDEX_LABEL, *lines, END]) if lines else ""


def index_in_view(session: Session, limit: int, count: CountTokens) -> str:
    """The index as the session's view shows it."""
    most = session.view.index_most
    limit = limit if most is None else min(limit, most)
    steps = "\n".join(one.pieces[0] for one in session.view.promoted if one.by == "step")
    return index_block(session.digests, limit, count, _listed_in_view(session), steps)


def _listed_in_view(session: Session) -> frozenset[str]:
    """The names that the view's digests list, and what they say was done."""
    shown = {e.digest for e in session.view.body if isinstance(e, Digested)}
    digests = [digest for digest in session.digests if digest.number in shown]
    done = (words_of_item(item) for digest in digests for item in digest.items("DONE"))
    return frozenset((*names_of_digests(digests), *done))


def late_pin_blocks(session: Session) -> dict[int, list[str]]:
    """The pins shown since the last compaction and still in force, by the message they follow."""
    in_force = {pin.number: pin for pin in session.pins}
    blocks: dict[int, list[str]] = {}
    for late in session.view.late_pins:
        block = pinned_block(in_force[number] for number in late.pins if number in in_force)
        if block:
            blocks.setdefault(late.after, []).append(block)
    return blocks


def lay_out(session: Session, index_limit: int, count: CountTokens) -> tuple[Shown, ...]:
    """The whole view in order, ready for a provider's shape."""
    frame = lay_out_frame(session, index_limit, count)
    messages = {m.seq: m for m in session.messages}
    late_pins = late_pin_blocks(session)
    since: list[Shown] = []
    for entry in _entries_since(session.view, session.messages):
        since.append(_show_message(messages[entry.seq], entry))
        since += (ShownRecord(text=text) for text in late_pins.get(entry.seq, ()))
    return (*frame, *since)


def memory_block(session: Session) -> str:
    """The memory until a digest holds it; no line of it poses as one of ours."""
    memory = session.sections.memory
    if not memory or session.view.memory_in is not None:
        return ""
    return f"[memory]\n{defuse_lines(memory)}"


def lay_out_frame(session: Session, index_limit: int, count: CountTokens) -> tuple[Shown, ...]:
    """The view without what came after it: the same until the next compaction."""
    view, sections = session.view, session.sections
    messages = {m.seq: m for m in session.messages}
    digests = {d.number: d for d in session.digests}
    shown: list[Shown] = []
    if sections.task:
        shown.append(ShownRecord(text=sections.task))
    shown += (_show_message(messages[e.seq], e) for e in view.head)
    shown += _records_of(memory_block(session))
    shown += _records_of(pinned_block(pins_in_view(session)))
    first_digests = _end_of_first_digests(view.body)
    excerpts = excerpts_by_place(view)
    for position, entry in enumerate(view.body):
        if isinstance(entry, Digested):
            shown += _records_of(render_digest(digests[entry.digest]))
        else:
            shown.append(_show_message(messages[entry.seq], entry))
        if position == first_digests:
            shown += _records_of(index_in_view(session, index_limit, count))
        shown += _records_of(excerpts_block(excerpts.get(position, ())))
    for after, texts in late_pin_blocks(session).items():
        shown += (ShownRecord(text=text) for text in texts if after <= view.upto)
    return tuple(shown)


def _show_message(message: Message, entry: Kept | Trimmed) -> ShownMessage:
    cuts: tuple[Cut, ...] = entry.cuts if isinstance(entry, Trimmed) else ()
    return ShownMessage(message=message, cuts=cuts)


def _records_of(text: str) -> tuple[ShownRecord, ...]:
    return (ShownRecord(text=text),) if text else ()


def excerpts_by_place(view: View) -> dict[int, list[Excerpt]]:
    """The excerpts by the place in the body that they stand behind; a view without a digest shows
    none."""
    found: dict[int, list[Excerpt]] = {}
    places = places_behind(view.body, [one.seq for one in view.promoted])
    for one, place in zip(view.promoted, places, strict=True):
        if place >= 0:
            found.setdefault(place, []).append(one)
    return found


def places_behind(body: Sequence[Entry], seqs: Iterable[int]) -> list[int]:
    """The place in a body that what was said in each message stands behind: the first digests, or
    the last message kept that is older, with the digests behind it; -1 without a digest."""
    first = _end_of_first_digests(body)
    kept = [
        (entry.seq, _end_of_digests(body, place))
        for place, entry in enumerate(body)
        if place > first >= 0 and not isinstance(entry, Digested)
    ]
    older = (bisect_left(kept, (seq, 0)) for seq in seqs)
    return [kept[number - 1][1] if number else first for number in older]


def _end_of_first_digests(body: Sequence[Entry]) -> int:
    """The position of the last digest of the first run of digests, or -1."""
    start = next((n for n, entry in enumerate(body) if isinstance(entry, Digested)), -1)
    return _end_of_digests(body, start) if start >= 0 else -1


def _end_of_digests(body: Sequence[Entry], place: int) -> int:
    """The position of the last digest that follows a place without a message between them; the
    place itself where none does."""
    while place + 1 < len(body) and isinstance(body[place + 1], Digested):
        place += 1
    return place
