"""Fits a caller's history into its window: records what is new, and gives what to send.

What is shown whole is the caller's own object; new objects stand only for what is replaced. A
request of which one message is new costs little more than hashing the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

from mcp_compaction.compactor import thinking
from mcp_compaction.compactor.compressing import relieve
from mcp_compaction.compactor.histories import (
    Answer,
    Counted,
    KnownHistory,
    Layout,
    Seen,
    find_longest_start,
    layout_between,
    state_of,
)
from mcp_compaction.compactor.history_following import Compared, compare_history, follow_history
from mcp_compaction.compactor.history_layout import (
    Laid,
    lay_out_around,
    make_frame,
    own_objects,
    show_view,
)
from mcp_compaction.compactor.history_matching import may_be_our_record
from mcp_compaction.compactor.masking import known_secrets
from mcp_compaction.compactor.pinning import show_late_pins, waiting_pins
from mcp_compaction.compactor.recording import (
    PreparedMessages,
    append,
    batch_of,
    check_is_on,
    note_model,
    note_report,
    prepare,
)
from mcp_compaction.compactor.results import FitOptions
from mcp_compaction.compactor.shortening import offload_since, shorten_first_request, shorten_stale
from mcp_compaction.compactor.viewing import begin
from mcp_compaction.compactor.workspace import MOST_ROWS, Workspace
from mcp_compaction.core.text.repeats import KnownSecrets
from mcp_compaction.core.window.fill import Fill
from mcp_compaction.errors import LogMoved, MalformedMessage
from mcp_compaction.formats import FORMATS, Incoming, read_incoming
from mcp_compaction.formats.arrival import (
    list_of_body,
    messages_of_answer,
    read_answer,
    read_beside_messages,
    sure_shape_of,
)
from mcp_compaction.formats.foreign import detect
from mcp_compaction.formats.identity import (
    bare_fingerprints_of,
    fingerprint_of,
    fingerprints_of,
    normalize_answer,
)
from mcp_compaction.formats.prepare import count_masked_in_new
from mcp_compaction.formats.thinking import sending_of
from mcp_compaction.formats.turns import join_turns, split_turns
from mcp_compaction.model import (
    Calibration,
    JsonObject,
    NewMessage,
    Outcome,
    Session,
    SessionInfo,
    Shape,
    Text,
)
from mcp_compaction.ports import Batch, Placed, Recorded


class Fitted(NamedTuple):
    """A caller's request as it should be sent, and what came of recording it."""

    request: Any  # a list of messages, or a request body, as the caller gave it
    messages: list[JsonObject]  # of it; what is shown whole is the caller's own object
    recorded: Recorded
    outcome: Outcome | None  # of compressing, where the window was too full
    fill: Fill
    layout: Layout  # by which the caller's own history becomes that
    has_waiting_pins: bool  # which it does not show before the user speaks


class _Given(NamedTuple):
    """A history as a caller sent it."""

    messages: list[JsonObject]
    rest: JsonObject  # of a request body, without its messages
    key: str | None  # under which the body has them; None: it is a bare list
    shape: Shape
    is_sure: bool  # of its shape
    prints: list[bytes]
    rest_print: bytes


async def fit(
    work: Workspace, info: SessionInfo, sent: Any, options: FitOptions | None = None
) -> Fitted:
    """Record what is new of a history, a list of messages or a request body, and give what should
    be sent in its place."""
    options = options or FitOptions()
    await check_is_on(work, info)
    given = await work.threads.run(_read, sent, options.prints, options.joins)
    recorded, history = await _record(work, info, given, options)
    reading = await work.read_window(info)
    if not _is_of(history, reading.session):  # another process has sent another history
        followed, history = await _follow(work, info, given, options)
        masked = Counter(recorded.masked) + Counter(followed.masked)
        total = {"new": recorded.new + followed.new, "masked": masked}
        recorded = followed.model_copy(update=total)
        reading = await work.read_window(info)
    has_begun = await begin(work, reading.session)
    has_late = options.shows_late_pins and await show_late_pins(work, reading.session)
    if has_begun or has_late:
        reading = await work.read_window(info)
    if options.microcompact:
        await shorten_stale(work, info)
        reading = await work.read_window(info)
    if options.relieve and await shorten_first_request(work, info, reading):
        reading = await work.read_window(info)
    outcome = await relieve(work, info, reading) if options.relieve else None
    if outcome is not None:
        reading = await work.read_window(info)
    own = own_objects(history, given.messages)
    frame = history.frame
    window = reading.session
    if frame is None or not frame.serves(state_of(window), own.whole):
        session = await work.load(info)
        view = await work.threads.run(show_view, session, *work.index_terms(session))
        # What another process appended since then is of its history.
        since = tuple(one for one in view.since if one.message.seq <= history.newest)
        frame = await work.threads.run(make_frame, view._replace(since=since), given.shape, own)
    laid = lay_out_around(frame, history, given.messages, own.whole)
    if options.is_sent:
        laid = await _leave_thinking(work, window.info, given, laid, options)
    per_message = reading.policy.overhead_per_message
    counted = Counted(window.view.version, reading.fill.counted_by_us, per_message)
    known = history._replace(frame=frame, counted=counted)
    work.histories.keep(info.id, (known, laid.history))
    messages = join_turns(laid.messages) if options.joins else laid.messages
    request: object = messages
    if given.key is not None:
        request = {**given.rest, given.key: messages}
    layout = layout_between(given.prints, given.messages, laid.messages, state_of(window))
    is_waiting = bool(waiting_pins(work, window))
    return Fitted(request, messages, recorded, outcome, reading.fill, layout, is_waiting)


async def _leave_thinking(
    work: Workspace, info: SessionInfo, given: _Given, laid: Laid, options: FitOptions
) -> Laid:
    """What was laid out, without thinking that is bound to another beginning."""
    model = options.model or given.rest.get("model") or info.traits.model
    more = options.beside
    own = sending_of(given.messages, given.rest, given.prints, more)
    sending = sending_of(laid.messages, given.rest, laid.history.prints, more)
    left = await thinking.leave_out_thinking(
        work, info, own, sending, str(model or ""), given.shape
    )
    return laid if left is None else laid.without(left)


async def record_history(
    work: Workspace, info: SessionInfo, sent: Any, options: FitOptions
) -> Counted | None:
    """Record what is new of a history that was fitted before, when nothing is to be laid out.

    Gives our count of the window; None where it has to be read, since not only messages are new.
    """
    await check_is_on(work, info)
    given = _read(sent, options.prints)  # which are known: it takes less than a thread's start
    _, history = await _record(work, info, given, options)
    work.histories.keep(info.id, (history,))
    return history.counted


async def compare(work: Workspace, info: SessionInfo, sent: Any) -> Compared:
    """Hold a history against what is recorded, before anything of it is."""
    given = await work.threads.run(_read, sent)
    secrets = await known_secrets(work, info)
    _, prepared = await work.threads.run(_prepare_news, work, given, given.messages, secrets)
    return await compare_history(work, info, prepared.messages)


def _is_of(history: KnownHistory, window: Session) -> bool:
    """Whether the window of a session is that of a history."""
    return (history.newest, history.gone) == (window.info.messages, window.view.gone)


async def record_answer(work: Workspace, info: SessionInfo, answer: JsonObject) -> Recorded:
    """Record what a model answered, and what it reported, before the caller sends it back."""
    await check_is_on(work, info)
    histories = work.histories.get(info.id, ())
    shape, messages = messages_of_answer(answer, histories[0].shape if histories else None)
    secrets = await known_secrets(work, info)
    came, prepared = await work.threads.run(_prepare_answer, work, answer, shape, secrets)
    ready = prepared.messages
    batch = await batch_of(work, info, prepared, "host")
    batch = batch.model_copy(update={"messages": tuple(ready)})
    histories = tuple(
        history._replace(shape=shape) for history in histories if _may_be_of(history, shape)
    )
    before = histories[0].counted if histories else None
    counted = before.plus(ready) if before is not None else None
    try:
        if not histories or not ready:
            raise LogMoved("nothing is known of the history that this answers.")
        done = await _append(work, info, histories[0], _with_report(batch, counted, came))
    except LogMoved:
        work.histories.pop(info.id, None)
        done = await append(work, info, ready, batch)
        counted = None
    else:
        prints = fingerprints_of(messages)
        answers: tuple[Answer, ...] = tuple(FORMATS[shape].read(m, "it") for m in messages)
        longer = (
            history.with_answer(prints, done.seqs, answers, done.new)._replace(counted=counted)
            for history in histories
        )
        work.histories.keep(info.id, tuple(longer))
    model = came.model or info.traits.model or ""
    await thinking.bind_answer(work, info, answer, messages, model)
    if counted is not None:
        await note_model(work, info, came)
    else:
        await note_report(work, info, came, done, before.version if before is not None else None)
    return done


def _with_report(batch: Batch, counted: Counted | None, came: Incoming) -> Batch:
    """A batch with what its provider reported of the window, where that was counted here too."""
    if counted is None or came.reported is None:
        return batch
    calibration = Calibration(counted=counted.tokens, reported=came.reported)
    return batch.model_copy(update={"calibration": calibration})


def _may_be_of(history: KnownHistory, shape: Shape) -> bool:
    return history.shape == shape or not history.is_sure


def _prepare_answer(
    work: Workspace, answer: JsonObject, shape: Shape, secrets: KnownSecrets
) -> tuple[Incoming, PreparedMessages]:
    """The messages of an answer, to be known by what they say: callers change other keys."""
    came = read_answer(answer, shape)
    prepared = prepare(work, came, secrets)
    messages = [
        message.model_copy(
            update={"normal": normalize_answer(message.raw_to_compare, message.shape)}
        )
        for message in prepared.messages
    ]
    return came, prepared._replace(messages=messages)


async def _append(
    work: Workspace, info: SessionInfo, known: KnownHistory, batch: Batch
) -> Recorded:
    """Append messages to a history that is known."""
    last = next((one.seq for one in reversed(known.seen) if one.seq is not None), 0)
    follows = (last, *range(known.newest + 1, known.newest + len(batch.messages)))
    version = known.counted.version if known.counted else 0
    follows = follows[: len(batch.messages)]
    placed = Placed(newest=known.newest, follows=follows, base_version=version)
    done = await work.store.append(info.id, batch.model_copy(update={"placed": placed}), work.now())
    return done.model_copy(update={"masked": count_masked_in_new(batch.messages, done)})


def _read(sent: Any, prints: Sequence[bytes] | None = None, splits: bool = False) -> _Given:
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
    messages = split_turns(messages) if splits else messages
    rest = {name: value for name, value in body.items() if name != key}
    known = list(prints) if prints is not None else fingerprints_of(messages)
    # Anew each time: a first plain message could be of any shape.
    sure = sure_shape_of(messages, body)
    shape = sure or detect(messages[0])
    return _Given(messages, rest, key, shape, sure is not None, known, fingerprint_of(rest))


async def _record(
    work: Workspace, info: SessionInfo, given: _Given, options: FitOptions
) -> tuple[Recorded, KnownHistory]:
    histories = work.histories.get(info.id, ())
    known = find_longest_start(histories, given.prints, given.messages)
    if known is not None:
        try:
            return await _record_news(work, info, given, known, options)
        except LogMoved:
            pass  # somebody else wrote to the session: its whole log is looked at
    return await _follow(work, info, given, options)


async def _follow(
    work: Workspace, info: SessionInfo, given: _Given, options: FitOptions
) -> tuple[Recorded, KnownHistory]:
    """Record a history that is laid beside the whole log."""
    await thinking.learn_again(work, info)
    secrets = await known_secrets(work, info)
    came, prepared = await work.threads.run(_prepare_news, work, given, given.messages, secrets)
    ready = _as_told(prepared.messages, options)
    batch = await batch_of(work, info, prepared, options.via)
    followed = await follow_history(work, info, ready, batch)
    recorded = followed.recorded
    await note_report(work, info, came, recorded)
    await _offload(work, info, followed.before, ready, options)
    history = KnownHistory(
        shape=given.shape,
        is_sure=given.is_sure,
        prints=given.prints,
        seen=list(followed.seen),
        newest=followed.newest,
        gone=followed.gone,
        rest=given.rest_print,
        bare=bare_fingerprints_of(given.messages, given.prints),
    )
    return recorded, history


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
    work: Workspace, given: _Given, messages: list[JsonObject], secrets: KnownSecrets
) -> tuple[Incoming, PreparedMessages]:
    came = _read_incoming(given, messages)
    return came, prepare(work, came, secrets)


def _as_told(messages: list[NewMessage], options: FitOptions) -> list[NewMessage]:
    """The messages, of which only words in the user's role are hearsay: what a model or a tool
    said is nobody's word but its own."""
    if not options.is_hearsay:
        return messages
    return [
        one if _has_users_words(one) else one.model_copy(update={"via": "host"}) for one in messages
    ]


def _has_users_words(message: NewMessage) -> bool:
    return message.role == "user" and any(isinstance(part, Text) for part in message.parts)


async def _record_news(
    work: Workspace, info: SessionInfo, given: _Given, known: KnownHistory, options: FitOptions
) -> tuple[Recorded, KnownHistory]:
    """Record what follows a history that is known."""
    is_rest_same = given.rest_print == known.rest
    new = given.messages[len(known.prints) :]
    seqs = tuple(one.seq for one in known.seen if one.seq is not None)
    if not new and is_rest_same:
        return Recorded(seqs=seqs, new=0), known
    if new and max(seqs, default=0) < known.newest:
        raise LogMoved("the log has more than that history had: what follows may be known.")
    read_as = given._replace(key=None) if is_rest_same else given
    secrets = await known_secrets(work, info)
    came, prepared = await work.threads.run(_prepare_news, work, read_as, new, secrets)
    ready = _as_told(prepared.messages, options)
    if len(ready) > MOST_ROWS or any(may_be_our_record(message) for message in ready):
        raise LogMoved("a record of ours came back, or very much; the whole log is looked at.")
    batch = await batch_of(work, info, prepared, options.via)
    batch = batch.model_copy(update={"messages": tuple(ready)})
    done = await _append(work, info, known, batch)
    recorded = done.model_copy(update={"seqs": (*seqs, *done.seqs)})
    await note_report(work, info, came, recorded)
    await _offload(work, info, known.newest, ready, options)
    history = known._replace(
        shape=given.shape,
        is_sure=given.is_sure,
        prints=given.prints,
        seen=[*known.seen, *map(Seen, done.seqs)],
        newest=known.newest + done.new,
        rest=given.rest_print,
        counted=known.counted.plus(ready) if known.counted and is_rest_same else None,
        bare=known.bare | bare_fingerprints_of(new, given.prints[len(known.prints) :]),
    )
    return recorded, history


async def _offload(
    work: Workspace, info: SessionInfo, newest: int, new: Sequence[NewMessage], options: FitOptions
) -> None:
    """Show previews of the results that came after a message and are too large."""
    over = options.offload_over_tokens
    if over is not None and any(message.tokens > over for message in new):
        await offload_since(work, info, newest, over)
