"""Fits a caller's history into its window: records what is new, and gives what to send.

What is shown whole is the caller's own object; new objects stand only for what is replaced. A
request of which one message is new costs little more than hashing the others.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

from mcp_compaction.compactor.compressing import relieve
from mcp_compaction.compactor.following import (
    Compared,
    compare_history,
    follow_history,
    is_ours,
)
from mcp_compaction.compactor.framing import lay_out_around, make_frame, own_objects
from mcp_compaction.compactor.lines import Answer, Line, Seen
from mcp_compaction.compactor.recording import (
    append,
    note_report,
    prepare_batch,
    prepare_messages,
)
from mcp_compaction.compactor.shortening import offload_since, shorten_stale
from mcp_compaction.compactor.viewing import begin
from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.core.window.fill import Fill
from mcp_compaction.errors import LogMoved, MalformedMessage
from mcp_compaction.formats import FORMATS, Incoming, read_incoming
from mcp_compaction.formats.answer import messages_of_answer, read_answer
from mcp_compaction.formats.arrival import list_of_body, read_beside_messages, sure_shape_of
from mcp_compaction.formats.detection import detect
from mcp_compaction.formats.fingerprint import fingerprint_of, fingerprints_of
from mcp_compaction.formats.identity import normal_of_essence
from mcp_compaction.formats.prepare import count_masked_in_new
from mcp_compaction.model import (
    JsonObject,
    Message,
    NewMessage,
    Outcome,
    Pin,
    Session,
    SessionInfo,
    Shape,
    Told,
)
from mcp_compaction.ports import Batch, Placed, Recorded


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
    has_begun = await begin(work, reading.session)
    has_told = await _tell(work, reading.session, given, line)
    if has_begun or has_told:
        reading = await work.read_window(info)
    if wish.shortens_stale:
        await shorten_stale(work, info)
        reading = await work.read_window(info)
    outcome = await relieve(work, info, reading) if wish.relieves else None
    if outcome is not None:
        reading = await work.read_window(info)
    own = own_objects(line, given.messages)
    frame = line.frame
    if frame is None or not frame.serves(reading.session, own.whole):
        session = await work.load(info)
        frame = await work.threads.run(make_frame, work, session, given.shape, own)
    laid = lay_out_around(frame, line, given.messages, own.whole)
    work.lines.keep(info.id, line._replace(frame=frame), laid.line)
    request: object = laid.messages
    if given.key is not None:
        request = {**given.rest, given.key: laid.messages}
    return Fitted(request, laid.messages, recorded, outcome, reading.fill)


async def compare(work: Workspace, info: SessionInfo, sent: Any) -> Compared:
    """Hold a history against what is recorded, before anything of it is."""
    given = await work.threads.run(_read, sent)
    _, ready = await work.threads.run(_prepare_news, work, given, given.messages)
    return await compare_history(work, info, ready)


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
    return done.model_copy(update={"masked": count_masked_in_new(batch.messages, done)})


def _read(sent: Any) -> _Given:
    body = cast("JsonObject", sent) if isinstance(sent, dict) else {}
    key = list_of_body(body) if body else None
    found = cast("object", body[key] if key is not None else sent)
    if isinstance(body.get("input"), str):
        key, found = "input", [{"role": "user", "content": body["input"]}]
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
    await _offload(work, info, newest, ready, wish)
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
    await _offload(work, info, known.newest, ready, wish)
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
    work: Workspace, info: SessionInfo, newest: int, new: Sequence[NewMessage], wish: Wish
) -> None:
    """Show previews of the results that came after a message and are too large."""
    over = wish.offload_over
    if over is not None and any(message.tokens > over for message in new):
        await offload_since(work, info, newest, over)


async def _tell(work: Workspace, window: Session, given: _Given, line: Line) -> bool:
    """Show pins that were made outside the conversation once, after what the user says now."""
    newest, last = _newest_said(given, line)
    known = {*window.view.pinned, *(number for one in window.view.told for number in one.pins)}
    new = [pin for pin in window.pins if pin.number not in known]
    if not window.view.is_begun or not new or newest is None or not _is_said_by_user(given, last):
        return False
    shown = _texts_since(given, line, window.view.upto)
    new = [pin for pin in new if not _is_shown(pin, shown)]
    if not new:
        return False
    view = await work.store.view(window.info.id, window.view.version)
    one = Told(after=newest, pins=tuple(pin.number for pin in new))
    changed = view.model_copy(update={"told": (*view.told, one)})
    # Overtaken: told the next time.
    return await work.store.save_view(window.info.id, changed, view.version)


def _texts_since(given: _Given, line: Line, upto: int) -> str:
    """What a caller sends of all that came after the view, as JSON."""
    pairs = zip(line.seen, given.messages, strict=True)
    return json.dumps([obj for seen, obj in pairs if (seen.seq or 0) > upto], ensure_ascii=False)


def _is_shown(pin: Pin, texts: str) -> bool:
    """Whether a pin's words stand there already: where it was said, or in the call that made it."""
    words = json.dumps(pin.text, ensure_ascii=False)[1:-1]
    in_arguments = json.dumps(words, ensure_ascii=False)[1:-1]  # which are JSON in JSON
    return words in texts or in_arguments in texts


def _newest_said(given: _Given, line: Line) -> tuple[int | None, JsonObject]:
    """The newest message of a history that is no record of ours, with its number."""
    pairs = zip(reversed(line.seen), reversed(given.messages), strict=True)
    said = ((seen.seq, obj) for seen, obj in pairs if seen.seq is not None)
    return next(said, (None, given.messages[-1]))


def _is_said_by_user(given: _Given, newest: JsonObject) -> bool:
    role, parts = FORMATS[given.shape].read(newest, "the message")
    message = Message(seq=0, role=role, parts=parts, shape=given.shape, raw="")
    return message.is_request
