"""Lays a view out around the own objects of a caller: what to send in place of its history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, cast

from mcp_compaction.compactor.histories import Frame, KnownHistory, Seen, pins_in_force
from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.core.window.render import late_pin_blocks, lay_out_frame
from mcp_compaction.formats import FORMATS, render
from mcp_compaction.formats.fingerprint import fingerprint_of, fingerprints_of, strip_marks
from mcp_compaction.formats.show import objects_of, without_repeats
from mcp_compaction.model import JsonObject, Session, Shape, Shown, ShownMessage, ShownRecord


class Own(NamedTuple):
    """The caller's objects by the numbers of their messages."""

    whole: dict[int, JsonObject]
    cut: dict[int, JsonObject]  # that we gave it, or an earlier view did


def own_objects(history: KnownHistory, messages: Sequence[JsonObject]) -> Own:
    """The objects of a history that a caller has sent."""
    own = Own({}, {})
    for seen, obj in zip(history.seen, messages, strict=True):
        if seen.seq is not None:
            (own.whole if seen.is_whole else own.cut)[seen.seq] = obj
    return own


def _objects_around(entry: ShownMessage, shape: Shape, own: Own) -> list[JsonObject]:
    """What is shown of a message: the caller's own cut where it shows the same, else a new one."""
    cut = own.cut.get(entry.message.seq)
    if cut is not None and entry.cuts and FORMATS[shape].cut(cut, entry.cuts) == cut:
        return [cut]
    objects = objects_of(entry, shape, own.whole)
    if not entry.cuts:
        return objects
    # A caller moves its marks: one in an object of ours would stay, and a provider takes but four.
    return [cast("JsonObject", strip_marks(obj)) for obj in objects]


def make_frame(work: Workspace, session: Session, shape: Shape, own: Own) -> Frame:
    """The view of a session around a caller's own objects."""
    view = session.view
    shown: list[Shown] = []
    objects = dict(zip(own.whole, without_repeats(own.whole.values()), strict=True))
    cut: set[int] = set()
    for entry in lay_out_frame(session, *work.index_terms(session)):
        shown.append(entry)
        if isinstance(entry, ShownMessage) and (entry.cuts or entry.message.seq not in own.whole):
            seq = entry.message.seq
            objects[seq] = _objects_around(entry, shape, own)[0]
            cut |= {seq} if entry.cuts else set()
            shown[-1] = ShownMessage(message=entry.message)
    number = {id(obj): seq for seq, obj in objects.items()}
    laid = render(shown, shape, objects)
    seen = [Seen(number.get(id(obj)), number.get(id(obj)) not in cut) for obj in laid]
    cuts = {entry.seq: entry.cuts for entry in view.since}
    later = {
        message.seq: _objects_around(
            ShownMessage(message=message, cuts=cuts.get(message.seq, ())), shape, own
        )
        for message in session.messages
        if message.seq > view.upto and (message.seq in cuts or message.seq not in own.whole)
    }
    return Frame(
        version=view.version,
        pins=pins_in_force(session),
        upto=view.upto,
        objects=tuple(
            None if one.seq in own.whole and one.is_whole else obj
            for one, obj in zip(seen, laid, strict=True)
        ),
        prints=tuple(fingerprints_of(laid)),
        seen=tuple(seen),
        later=later,
        late_pins={
            after: [obj for text in texts for obj in objects_of(ShownRecord(text=text), shape)]
            for after, texts in late_pin_blocks(session).items()
        },
    )


class Laid(NamedTuple):
    """The messages to send, and what is remembered of them."""

    messages: list[JsonObject]
    history: KnownHistory


def lay_out_around(
    frame: Frame, history: KnownHistory, sent: Sequence[JsonObject], own: Mapping[int, JsonObject]
) -> Laid:
    """The messages to send: the frame, then what came after it."""
    messages = [
        own[seen.seq] if obj is None and seen.seq is not None else obj or {}
        for obj, seen in zip(frame.objects, frame.seen, strict=True)
    ]
    sent_as = {seen.seq: one for seen, one in zip(history.seen, history.prints, strict=True)}
    prints = [
        one if obj is not None else sent_as[seen.seq]
        for obj, seen, one in zip(frame.objects, frame.seen, frame.prints, strict=True)
    ]
    known = list(frame.seen)
    for seen, obj, one in zip(history.seen, sent, history.prints, strict=True):
        if seen.seq is None or seen.seq <= frame.upto:
            continue
        for new in frame.later.get(seen.seq, (obj,)):
            messages.append(new)
            prints.append(one if new is obj else fingerprint_of(new))
            known.append(seen if new is obj else Seen(seen.seq, is_whole=False))
        for new in frame.late_pins.get(seen.seq, ()):
            messages.append(new)
            prints.append(fingerprint_of(new))
            known.append(Seen(None))
    return Laid(messages, history._replace(prints=prints, seen=known, frame=frame))
