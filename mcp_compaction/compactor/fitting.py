"""Fits a caller's history into its window: records what is new, and gives what to send.

What is shown whole is the caller's own object; new objects stand only for what is replaced. A
request of which one message is new costs little more than hashing the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from mcp_compaction.compactor.compressing import relieve
from mcp_compaction.compactor.events import OFFLOADED
from mcp_compaction.compactor.following import follow_history, is_ours
from mcp_compaction.compactor.lines import Answer, Frame, Line, Seen, pins_in_force
from mcp_compaction.compactor.recording import (
    append,
    note_report,
    prepare_batch,
    prepare_messages,
)
from mcp_compaction.compactor.shortening import shorten_stale
from mcp_compaction.compactor.viewing import begin
from mcp_compaction.compactor.workspace import MOST_TRIES, Workspace
from mcp_compaction.core.log.conversation import has_request
from mcp_compaction.core.window.fill import Fill
from mcp_compaction.core.window.offload import offload
from mcp_compaction.core.window.render import lay_out_frame, told_blocks
from mcp_compaction.errors import LogMoved, MalformedMessage
from mcp_compaction.formats import FORMATS, Incoming, read_incoming, render
from mcp_compaction.formats.answer import messages_of_answer, read_answer
from mcp_compaction.formats.arrival import list_of_body, read_beside_messages, sure_shape_of
from mcp_compaction.formats.detection import detect
from mcp_compaction.formats.fingerprint import fingerprint_of, fingerprints_of
from mcp_compaction.formats.identity import normal_of_essence
from mcp_compaction.formats.show import objects_of
from mcp_compaction.model import (
    Event,
    JsonObject,
    Message,
    NewMessage,
    Outcome,
    Pin,
    Session,
    SessionInfo,
    Shape,
    Shown,
    ShownMessage,
    ShownRecord,
    Told,
)
from mcp_compaction.ports import Batch, Placed, Recorded

# Ways by which a pin's words stand in the conversation already: an agent's call was answered.
_IN_AN_ANSWER = ("tool", "message", "dialog")


class Fitted(NamedTuple):
    """A caller's request as it should be sent, and what came of recording it."""

    request: Any  # a list of messages, or a request body, as the caller gave it
    messages: list[JsonObject]  # of it; what is shown whole is the caller's own object
    recorded: Recorded
    outcome: Outcome | None  # of compressing, where the window was too full
    fill: Fill


class Wish(NamedTuple):
    """What is to be done beside recording."""

    relieves: bool = True  # compress where the window is too full
    offload_over: int | None = None  # tokens over which a new result becomes a preview
    shortens_stale: bool = False  # show previews of old large results


class _Given(NamedTuple):
    """A history as a caller sent it."""

    messages: list[JsonObject]
    rest: JsonObject  # of a request body, without its messages
    key: str | None  # under which the body has them; None: it is a bare list
    shape: Shape
    is_sure: bool  # of its shape
    prints: list[bytes]
    rest_print: bytes


async def fit(work: Workspace, info: SessionInfo, sent: Any, wish: Wish) -> Fitted:
    """Record what is new of a history, and give what should be sent in its place."""
    given = await work.threads.run(_read, sent)
    recorded, line = await _record(work, info, given, wish)
    reading = await work.read_window(info)
    if reading.session.view.gone != line.gone:  # another process has sent another history
        followed, line = await _follow(work, info, given, wish)
        recorded = recorded.model_copy(update={"seqs": followed.seqs})
        reading = await work.read_window(info)
    if await begin(work, reading.session) | await _tell(work, reading.session, given, line):
        reading = await work.read_window(info)
    if wish.shortens_stale:
        await shorten_stale(work, info)
        reading = await work.read_window(info)
    outcome = await relieve(work, info, reading) if wish.relieves else None
    if outcome is not None:
        reading = await work.read_window(info)
    own = _own_objects(given, line)
    frame = line.frame
    if frame is None or not frame.serves(reading.session, own.whole):
        session = await work.load(info)
        frame = await work.threads.run(_make_frame, work, session, given.shape, own)
    laid = _lay_out(frame, given, line, own.whole)
    work.lines.keep(info.id, line._replace(frame=frame), laid.line)
    request: object = laid.messages
    if given.key is not None:
        request = {**given.rest, given.key: laid.messages}
    return Fitted(request, laid.messages, recorded, outcome, reading.fill)


async def record_answer(work: Workspace, info: SessionInfo, answer: JsonObject) -> Recorded:
    """Record what a model answered, and what it reported, before the caller sends it back."""
    lines = work.lines.of(info.id)
    shape, messages = messages_of_answer(answer, lines[0].shape if lines else None)
    came = await work.threads.run(read_answer, answer, shape)
    ready = await work.threads.run(_prepare_answer, work, came)
    batch = (await prepare_batch(work, came)).model_copy(update={"messages": tuple(ready)})
    lines = tuple(line._replace(shape=shape) for line in lines if _may_be_of(line, shape))
    try:
        if not lines or not ready:
            raise LogMoved("nothing is known of the history that this answers.")
        done = await _append(work, info, lines[0], batch)
    except LogMoved:
        work.lines.drop(info.id)
        done = await append(work, info, ready, batch)
    else:
        prints = fingerprints_of(messages)
        answers: tuple[Answer, ...] = tuple(FORMATS[shape].read(m, "it") for m in messages)
        longer = [line.with_answer(prints, done.seqs, answers, done.new) for line in lines]
        work.lines.keep(info.id, *longer)
    await note_report(work, info, came, done)
    return done


def _may_be_of(line: Line, shape: Shape) -> bool:
    return line.shape == shape or not line.is_sure


def _prepare_answer(work: Workspace, came: Incoming) -> list[NewMessage]:
    """The messages of an answer, to be known by what they say: callers change other keys."""
    return [
        message.model_copy(update={"normal": normal_of_essence(message.raw, message.shape)})
        for message in prepare_messages(work, came.messages)
    ]


async def _append(work: Workspace, info: SessionInfo, known: Line, batch: Batch) -> Recorded:
    """Append messages to a history that is known."""
    last = next((one.seq for one in reversed(known.seen) if one.seq is not None), 0)
    follows = (last, *range(known.newest + 1, known.newest + len(batch.messages)))
    placed = Placed(newest=known.newest, follows=follows[: len(batch.messages)], base_version=0)
    done = await work.store.append(info.id, batch.model_copy(update={"placed": placed}), work.now())
    masked = sum((Counter(message.masked) for message in batch.messages), Counter[str]())
    return done.model_copy(update={"masked": masked})


def _read(sent: Any) -> _Given:
    body = cast("JsonObject", sent) if isinstance(sent, dict) else {}
    key = list_of_body(body) if body else None
    found = cast("object", body[key] if key is not None else sent)
    messages = list(cast("Sequence[JsonObject]", found)) if isinstance(found, list | tuple) else []
    if not messages or not all(isinstance(one, dict) for one in messages):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise MalformedMessage(
            "there is no history in it; send the list of messages, or the request body with it."
        )
    rest = {name: value for name, value in body.items() if name != key}
    prints = fingerprints_of(messages)
    # Anew each time: a first plain message could be of any shape.
    sure = sure_shape_of(messages, body)
    shape = sure or detect(messages[0])
    return _Given(messages, rest, key, shape, sure is not None, prints, fingerprint_of(rest))


async def _record(
    work: Workspace, info: SessionInfo, given: _Given, wish: Wish
) -> tuple[Recorded, Line]:
    known = work.lines.find(info.id, given.prints)
    known = known and known.start_of(given.prints, given.messages)
    if known is not None:
        try:
            return await _record_news(work, info, given, known, wish)
        except LogMoved:
            pass  # somebody else wrote to the session: its whole log is looked at
    return await _follow(work, info, given, wish)


async def _follow(
    work: Workspace, info: SessionInfo, given: _Given, wish: Wish
) -> tuple[Recorded, Line]:
    """Record a history that is laid beside the whole log."""
    came, ready = await work.threads.run(_prepare_news, work, given, given.messages)
    followed = await follow_history(work, info, ready, await prepare_batch(work, came))
    recorded, newest = followed.recorded, followed.newest
    await note_report(work, info, came, recorded)
    fresh = [(s.seq, m) for s, m in zip(followed.seen, ready, strict=True) if (s.seq or 0) > newest]
    await _offload(work, info, given, fresh, wish)
    line = Line(
        shape=given.shape,
        is_sure=given.is_sure,
        prints=given.prints,
        seen=list(followed.seen),
        newest=newest + recorded.new,
        gone=followed.gone,
        rest=given.rest_print,
    )
    return recorded, line


def _read_incoming(given: _Given, messages: list[JsonObject]) -> Incoming:
    came = read_incoming(messages, given.shape) if messages else Incoming(messages=())
    if given.key is None:
        return came
    beside = read_beside_messages(given.rest)
    model = beside.model or came.model
    return beside.model_copy(
        update={"messages": came.messages, "reported": came.reported, "model": model}
    )


def _prepare_news(
    work: Workspace, given: _Given, messages: list[JsonObject]
) -> tuple[Incoming, list[NewMessage]]:
    came = _read_incoming(given, messages)
    return came, prepare_messages(work, came.messages)


async def _record_news(
    work: Workspace, info: SessionInfo, given: _Given, known: Line, wish: Wish
) -> tuple[Recorded, Line]:
    """Record what follows a history that is known."""
    is_rest_same = given.rest_print == known.rest
    new = given.messages[len(known.prints) :]
    seqs = tuple(one.seq for one in known.seen if one.seq is not None)
    if not new and is_rest_same:
        return Recorded(seqs=seqs, new=0), known
    read_as = given._replace(key=None) if is_rest_same else given
    came, ready = await work.threads.run(_prepare_news, work, read_as, new)
    if any(is_ours(message) for message in ready):
        raise LogMoved("a record of ours came back; its whole log is looked at.")
    batch = (await prepare_batch(work, came)).model_copy(update={"messages": tuple(ready)})
    done = await _append(work, info, known, batch)
    recorded = done.model_copy(update={"seqs": (*seqs, *done.seqs)})
    await note_report(work, info, came, recorded)
    await _offload(work, info, given, list(zip(done.seqs, ready, strict=True)), wish)
    line = known._replace(
        shape=given.shape,
        is_sure=given.is_sure,
        prints=given.prints,
        seen=[*known.seen, *map(Seen, done.seqs)],
        newest=known.newest + done.new,
        rest=given.rest_print,
    )
    return recorded, line


async def _offload(
    work: Workspace,
    info: SessionInfo,
    given: _Given,
    fresh: Sequence[tuple[int | None, NewMessage]],
    wish: Wish,
) -> None:
    """Show previews of the results that came now and are too large."""
    over = wish.offload_over
    if over is None or all(message.tokens <= over for _, message in fresh):
        return
    asked = _newest_request(given)
    cut = [
        entry
        for seq, message in fresh
        if seq is not None
        and message.tokens > over
        and (entry := offload(_numbered(message, seq), over, asked, work.counter.count))
    ]
    for _ in range(MOST_TRIES if cut else 0):
        view = (await work.load(info)).view
        changed = view.model_copy(update={"since": (*view.since, *cut)})
        named = ", ".join(f"m{entry.seq}" for entry in cut)
        event = Event(name=OFFLOADED, at=work.now(), detail=named)
        if await work.store.save_view(info.id, changed, view.version, event):
            return


def _newest_request(given: _Given) -> str:
    form = FORMATS[given.shape]
    for obj in reversed(given.messages):
        role, parts = form.read(obj, "the message")
        message = Message(seq=0, role=role, parts=parts, shape=given.shape, raw="")
        if has_request(message):
            return message.text
    return ""


def _numbered(message: NewMessage, seq: int) -> Message:
    return Message(
        seq=seq, role=message.role, parts=message.parts, shape=message.shape, raw=message.raw
    )


async def _tell(work: Workspace, window: Session, given: _Given, line: Line) -> bool:
    """Show pins that were made outside the conversation once, after what the user says now."""
    newest, last = _newest_said(given, line)
    known = {*window.view.pinned, *(number for one in window.view.told for number in one.pins)}
    new = [p for p in window.pins if p.number not in known and not _is_in_an_answer(p, window.info)]
    if not window.view.is_begun or not new or newest is None or not _is_said_by_user(given, last):
        return False
    view = await work.store.view(window.info.id, window.view.version)
    one = Told(after=newest, pins=tuple(pin.number for pin in new))
    changed = view.model_copy(update={"told": (*view.told, one)})
    # Overtaken: told the next time.
    return await work.store.save_view(window.info.id, changed, view.version)


def _is_in_an_answer(pin: Pin, info: SessionInfo) -> bool:
    return pin.session == info.name and pin.channel in _IN_AN_ANSWER


def _newest_said(given: _Given, line: Line) -> tuple[int | None, JsonObject]:
    """The newest message of a history that is no record of ours, with its number."""
    pairs = zip(reversed(line.seen), reversed(given.messages), strict=True)
    said = ((seen.seq, obj) for seen, obj in pairs if seen.seq is not None)
    return next(said, (None, given.messages[-1]))


def _is_said_by_user(given: _Given, newest: JsonObject) -> bool:
    role, parts = FORMATS[given.shape].read(newest, "the message")
    message = Message(seq=0, role=role, parts=parts, shape=given.shape, raw="")
    return message.is_request


class _Own(NamedTuple):
    """The caller's objects by the numbers of their messages."""

    whole: dict[int, JsonObject]
    cut: dict[int, JsonObject]  # that we gave it, or an earlier view did


def _own_objects(given: _Given, line: Line) -> _Own:
    own = _Own({}, {})
    for seen, obj in zip(line.seen, given.messages, strict=True):
        if seen.seq is not None:
            (own.whole if seen.is_whole else own.cut)[seen.seq] = obj
    return own


def _objects_around(entry: ShownMessage, shape: Shape, own: _Own) -> list[JsonObject]:
    """What is shown of a message: the caller's own cut where it shows the same, else a new one."""
    cut = own.cut.get(entry.message.seq)
    if cut is not None and entry.cuts and FORMATS[shape].cut(cut, entry.cuts) == cut:
        return [cut]
    return objects_of(entry, shape, own.whole)


def _make_frame(work: Workspace, session: Session, shape: Shape, own: _Own) -> Frame:
    """The view of a session around a caller's own objects."""
    view = session.view
    shown: list[Shown] = []
    objects = dict(own.whole)
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
        told={
            after: [obj for text in texts for obj in objects_of(ShownRecord(text=text), shape)]
            for after, texts in told_blocks(session).items()
        },
    )


class _Laid(NamedTuple):
    """The messages to send, and what is remembered of them."""

    messages: list[JsonObject]
    line: Line


def _lay_out(frame: Frame, given: _Given, line: Line, own: Mapping[int, JsonObject]) -> _Laid:
    """The messages to send: the frame, then what came after it."""
    messages = [
        own[seen.seq] if obj is None and seen.seq is not None else obj or {}
        for obj, seen in zip(frame.objects, frame.seen, strict=True)
    ]
    prints, known = list(frame.prints), list(frame.seen)
    for seen, obj, one in zip(line.seen, given.messages, given.prints, strict=True):
        if seen.seq is None or seen.seq <= frame.upto:
            continue
        for new in frame.later.get(seen.seq, (obj,)):
            messages.append(new)
            prints.append(one if new is obj else fingerprint_of(new))
            known.append(seen if new is obj else Seen(seen.seq, is_whole=False))
        for new in frame.told.get(seen.seq, ()):
            messages.append(new)
            prints.append(fingerprint_of(new))
            known.append(Seen(None))
    return _Laid(messages, line._replace(prints=prints, seen=known, frame=frame))
