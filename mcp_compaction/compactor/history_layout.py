"""Lays a view out around the own objects of a caller: what to send in place of its history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeGuard, cast

from mcp_compaction.compactor.histories import Frame, KnownHistory, Seen, ViewState, state_of
from mcp_compaction.core.tokens import CountTokens
from mcp_compaction.core.window.render import late_pin_blocks, lay_out_frame
from mcp_compaction.formats import FORMATS, render
from mcp_compaction.formats.identity import fingerprint_of, fingerprints_of, strip_marks
from mcp_compaction.formats.show import objects_of, without_repeats
from mcp_compaction.formats.thinking import Left
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


class ShownView(NamedTuple):
    """A view as it is to be shown, before the caller's objects stand in it."""

    state: ViewState
    upto: int
    frame: tuple[Shown, ...]  # up to there: the same until the next compaction
    since: tuple[ShownMessage, ...]  # the messages after it
    late_pins: dict[int, list[str]]  # the texts behind some of these, by number


def show_view(session: Session, index_limit: int, count: CountTokens) -> ShownView:
    """The view of a session as it is to be shown."""
    view = session.view
    cuts = {entry.seq: entry.cuts for entry in view.since}
    return ShownView(
        state=state_of(session),
        upto=view.upto,
        frame=lay_out_frame(session, index_limit, count),
        since=tuple(
            ShownMessage(message=message, cuts=cuts.get(message.seq, ()))
            for message in session.messages
            if message.seq > view.upto
        ),
        late_pins=late_pin_blocks(session),
    )


def is_to_be_replaced(entry: Shown, own: Own) -> TypeGuard[ShownMessage]:
    """Whether a new object, or a stored one, stands for a message of the caller's."""
    if isinstance(entry, ShownRecord):
        return False
    return bool(entry.cuts) or entry.message.seq not in own.whole


def make_frame(view: ShownView, shape: Shape, own: Own) -> Frame:
    """The frame of a view around a caller's own objects."""
    shown: list[Shown] = []
    objects = dict(zip(own.whole, without_repeats(own.whole.values()), strict=True))
    cut: set[int] = set()
    for entry in view.frame:
        shown.append(entry)
        if is_to_be_replaced(entry, own):
            seq = entry.message.seq
            objects[seq] = _objects_around(entry, shape, own)[0]
            cut |= {seq} if entry.cuts else set()
            shown[-1] = ShownMessage(message=entry.message)
    number = {id(obj): seq for seq, obj in objects.items()}
    laid = render(shown, shape, objects)
    seen = [Seen(number.get(id(obj)), number.get(id(obj)) not in cut) for obj in laid]
    return Frame(
        state=view.state,
        upto=view.upto,
        objects=tuple(
            None if one.seq in own.whole and one.is_whole else obj
            for one, obj in zip(seen, laid, strict=True)
        ),
        prints=tuple(fingerprints_of(laid)),
        seen=tuple(seen),
        later={
            entry.message.seq: _objects_around(entry, shape, own)
            for entry in view.since
            if is_to_be_replaced(entry, own)
        },
        late_pins={
            after: [obj for text in texts for obj in objects_of(ShownRecord(text=text), shape)]
            for after, texts in view.late_pins.items()
        },
    )


class Laid(NamedTuple):
    """The messages to send, and what is remembered of them."""

    messages: list[JsonObject]
    history: KnownHistory

    def without(self, left: Left) -> Laid:
        """The same without the thinking that is good no more."""
        # Without its thinking a message is still the whole message that was said.
        seen = [self.history.seen[place] for place in left.places]
        return Laid(left.messages, self.history._replace(prints=left.prints, seen=seen))


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
    since = {
        seen.seq: (seen, obj, one)
        for seen, obj, one in zip(history.seen, sent, history.prints, strict=True)
        if seen.seq is not None and seen.seq > frame.upto
    }
    # A restored view shows messages again that the caller has no more.
    for seq in sorted({*since, *frame.later}):
        seen, obj, one = since.get(seq, (Seen(seq), None, b""))
        for new in frame.later.get(seq, () if obj is None else (obj,)):
            messages.append(new)
            prints.append(one if new is obj else fingerprint_of(new))
            known.append(seen if new is obj else Seen(seq, is_whole=False))
        for new in frame.late_pins.get(seq, ()):
            messages.append(new)
            prints.append(fingerprint_of(new))
            known.append(Seen(None))
    return Laid(messages, history._replace(prints=prints, seen=known, frame=frame))
