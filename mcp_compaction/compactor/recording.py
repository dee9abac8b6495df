"""Records messages: what is known already keeps its number, the rest is appended."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from mcp_compaction.compactor.gauge import FillReading
from mcp_compaction.compactor.headless import set_apart
from mcp_compaction.compactor.history_following import follow_history
from mcp_compaction.compactor.masking import known_secrets, mask_text, note_secrets
from mcp_compaction.compactor.results import HEADLESS, RECORDING
from mcp_compaction.compactor.workspace import MOST_ROWS, Workspace, scope_of
from mcp_compaction.core.text.host_texts import without_host_texts
from mcp_compaction.core.text.refs import number_of
from mcp_compaction.core.text.repeats import KnownSecret, KnownSecrets
from mcp_compaction.core.text.secrets import redact
from mcp_compaction.core.text.wholes import unify_lines
from mcp_compaction.core.tokens import learn_of_host
from mcp_compaction.errors import InputError, StoreError
from mcp_compaction.formats import Incoming, IncomingMessage
from mcp_compaction.formats.identity import content_hash
from mcp_compaction.formats.prepare import (
    Masked,
    count_masked_in_new,
    count_sections,
    mask_together,
    prepare_message,
)
from mcp_compaction.model import (
    Calibration,
    Event,
    HeardVia,
    Message,
    NewMessage,
    Sections,
    Session,
    SessionInfo,
    Text,
    Traits,
    Via,
)
from mcp_compaction.ports import Batch, Mark, Recorded, SessionKey

logger = logging.getLogger(__name__)

Events = Sequence[Event]
_AFTER_ANSWER = (4, 50)  # messages among which the newest answer usually is: first a few

_MASK = "[masked:"


class PreparedMessages(NamedTuple):
    """New messages, ready to be appended."""

    messages: list[NewMessage]
    told: tuple[KnownSecret, ...]  # the secrets that it told by their names
    sections: Sections | None = None
    section_tokens: int = 0
    memory_tokens: int = 0


async def is_off(work: Workspace, info: SessionInfo) -> bool:
    """Whether the user wants nothing more of a chat to be kept."""
    said = await work.store.events(info.id, RECORDING)
    return bool(said) and said[-1].detail == "off"


async def check_is_on(work: Workspace, info: SessionInfo) -> None:
    """Refuse to keep what the user asked not to have kept."""
    if await is_off(work, info):
        raise InputError(
            f"recording is off for {info.name}; nothing was kept. To turn it on again: "
            "mcp-compaction set --record on"
        )


async def switch_recording(work: Workspace, info: SessionInfo, is_on: bool) -> None:
    """Keep what is said in a chat from now on, or nothing of it."""
    detail = "on" if is_on else "off"
    await work.store.add_event(info.id, Event(name=RECORDING, at=work.now(), detail=detail))


async def record(
    work: Workspace, info: SessionInfo, came: Incoming, after: str | None = None, via: Via = "host"
) -> Recorded:
    """Append what is not yet known; the result has the number of each message, in order.

    Via `tool`: an agent handed it over, so that it is only the agent's word who said what.
    """
    await check_is_on(work, info)
    if via == "tool":
        came = came.model_copy(update={"messages": _without_ids(came.messages)})
    prepared = await work.threads.run(prepare, work, came, await known_secrets(work, info))
    ready, sent = set_apart(prepared.messages, via)
    batch = await batch_of(work, info, prepared, via, sent)
    if came.whole and after is None and ready:
        recorded = (await follow_history(work, info, ready, batch)).recorded
    else:
        follows = number_of(after, "m") if after is not None else None
        recorded = await append(work, info, ready, batch.model_copy(update={"after": follows}))
    await note_report(work, info, came, recorded)
    return recorded


async def batch_of(
    work: Workspace, info: SessionInfo, came: PreparedMessages, via: Via, events: Events = ()
) -> Batch:
    """A batch of all that came but the messages, and of the secrets that it told."""
    return Batch(
        messages=(),
        counter=work.counter.id,
        via=via,
        sections=came.sections,
        section_tokens=came.section_tokens,
        memory_tokens=came.memory_tokens,
        events=(*events, *await note_secrets(work, info, came.told)),
    )


async def note_report(
    work: Workspace,
    info: SessionInfo,
    came: Incoming,
    recorded: Recorded,
    version: int | None = None,
) -> None:
    """Keep what was said about the model: which it is, and how full it found its window.

    `version`: of the view that the report is about; None: the newest.
    """
    await note_model(work, info, came)
    if came.reported is not None and recorded.seqs:
        await _calibrate(work, info, came.reported, version)


async def note_model(work: Workspace, info: SessionInfo, came: Incoming) -> None:
    """Keep which model it is, and which title its host gave the chat."""
    if work.mask_secrets:
        told = {"model": came.model, "title": came.title}
        masked = {name: redact(text).text for name, text in told.items() if text is not None}
        came = came.model_copy(update=masked)
    if came.traits_over(info.traits) != info.traits:
        await work.store.set_traits(info.id, came.traits_over(Traits()))


async def append(
    work: Workspace, info: SessionInfo, ready: Sequence[NewMessage], batch: Batch
) -> Recorded:
    """Append messages at the end of the log, but for those that stand there already."""
    seqs: list[int] = []
    new = 0
    diverged: int | None = None
    masked = Counter[str]()
    for start in range(0, max(1, len(ready)), MOST_ROWS):
        rows = tuple(ready[start : start + MOST_ROWS])
        done = await work.store.append(
            info.id, batch.model_copy(update={"messages": rows}), work.now()
        )
        seqs += done.seqs
        new += done.new
        diverged = diverged or done.diverged
        masked += count_masked_in_new(rows, done)
        if seqs:
            batch = batch.model_copy(update={"after": seqs[-1], "sections": None})
    return Recorded(seqs=tuple(seqs), new=new, diverged=diverged, masked=masked)


async def record_transcript(
    work: Workspace,
    info: SessionInfo,
    came: Incoming,
    via: HeardVia,
    mark: Mark | None = None,
    events: tuple[Event, ...] = (),
) -> Recorded:
    """Append a piece of a transcript, at most as many messages as one transaction may take; where
    recording is off it is passed over, and never read again."""
    if await is_off(work, info):
        came = Incoming(messages=())
    prepared = await work.threads.run(prepare, work, came, await known_secrets(work, info))
    ready, sent = set_apart(prepared.messages, via)
    heard: Via = "tool" if via == "tool" else "host"
    batch = await batch_of(work, info, prepared, heard, (*events, *sent))
    batch = batch.model_copy(update={"messages": ready, "has_ids": True, "mark": mark})
    done = await work.store.append(info.id, batch, work.now())
    await note_model(work, info, came)
    if came.first_reported is not None and info.traits.unseen_tokens is None:
        reported, number = came.first_reported
        window, newest = await work.read_window(info), max(done.seqs[:number], default=0)
        later = {n: one.tokens for n, one in zip(done.seqs, ready, strict=True) if n > newest}
        more = sum(later.values()) + work.policy.overhead_per_message * len(later)
        counted = max(1, window.fill.counted_by_us - more)
        await _learn(work, window, Calibration(counted=counted, reported=reported))
    if came.reported is not None:  # be it behind the messages it is about
        await _calibrate(work, info, came.reported)
    return done.model_copy(update={"masked": count_masked_in_new(ready, done)})


async def take_over(work: Workspace, copy: SessionInfo, key: SessionKey, came: Incoming) -> bool:
    """Give a session to the host whose chat it is, where it holds nothing but what came of that."""
    prepared = await work.threads.run(prepare, work, came, await known_secrets(work, copy))
    said = {m.host_id: content_hash(m) for m in prepared.messages if m.host_id is not None}
    return await work.store.take_over(copy.id, key, said)


async def _calibrate(
    work: Workspace, info: SessionInfo, reported: int, version: int | None = None
) -> None:
    """Set what the provider counted beside our count of the same window."""
    window = await work.read_window(info)
    if version not in (None, window.session.view.version):
        return
    newest = window.session.info.messages
    since = None
    for most in _AFTER_ANSWER:
        first = max(window.session.view.upto, newest - most)
        found = await work.store.originals(scope_of(info), after=first)
        since = _messages_after_answer([original.message for original in found])
        if since is not None:
            break
    else:
        since = _messages_after_answer((await work.load(info)).messages) or ()
    overhead = window.policy.overhead_per_message
    later = sum(message.tokens + overhead for message in since)
    told = Calibration(counted=window.fill.counted_by_us - later, reported=reported)
    if told.counted > 0:
        await work.store.calibrate(info.id, told.counted, reported)
        await _learn(work, window, told)


async def _learn(work: Workspace, window: FillReading, told: Calibration) -> None:
    """Keep what a report tells of a host's window beside how full it is."""
    known = window.session.info.traits
    if known.owns_window:
        return
    learned = learn_of_host(known, told, is_whole=not window.session.view.version)
    if (known.unseen_tokens, known.token_factor) != (learned.unseen_tokens, learned.token_factor):
        await work.store.set_traits(window.session.info.id, learned)


async def keep_reported_fill(work: Workspace, before: Session) -> None:
    """Leave the window of a host as full as it was reported, though our view of it has changed."""
    known = before.calibration
    if before.info.traits.owns_window or not known.reported:
        return
    try:
        then = await work.threads.run(work.fill_of, before)
        now = (await work.read_window(before.info)).fill
        counted = known.counted + now.counted_by_us - then.counted_by_us
        await work.store.calibrate(before.info.id, max(1, counted), known.reported)
    except StoreError as error:  # the view is saved: the next report sets the fill right
        logger.warning("the reported fill of %s was not kept: %s", before.info.name, error)


def _messages_after_answer(messages: Sequence[Message]) -> Sequence[Message] | None:
    """The messages after the newest answer of the model; None where there is no answer."""
    answers = [n for n, message in enumerate(messages) if message.role == "assistant"]
    return messages[answers[-1] + 1 :] if answers else None


def prepare(work: Workspace, came: Incoming, known: KnownSecrets) -> PreparedMessages:
    """New messages, ready to be appended: masked, read and counted."""
    sections = came.sections
    texts = [message.raw for message in came.messages]
    if sections is not None:
        texts.append(sections.model_dump_json())
    masked, told = mask_together(texts, known) if work.mask_secrets else ([*map(Masked, texts)], ())
    count = work.counter.count
    ready = [
        prepare_message(message, one, count)
        for message, one in zip(came.messages, masked, strict=False)
    ]
    if sections is None:
        return PreparedMessages(ready, told)
    sections = Sections.model_validate(json.loads(masked[-1].text))
    return PreparedMessages(ready, told, sections, *count_sections(sections, work.policy, count))


def _without_ids(messages: Sequence[IncomingMessage]) -> tuple[IncomingMessage, ...]:
    """The messages without host ids: an agent could claim one and keep the real message out."""
    return tuple(message.model_copy(update={"host_id": None}) for message in messages)


async def vouch(work: Workspace, info: SessionInfo, prompts: Mapping[str, bool]) -> None:
    """Count those messages as the user's that hold nothing but texts that were typed, and those as
    a program's that hold other prompts. `prompts`: whether a person has typed each."""
    told = await work.store.hearsay(info.id)
    said = {_fold(text) for text in prompts}
    typed = {_fold(text) for text, is_typed in prompts.items() if is_typed}
    if any(_MASK in message.text for message in told):  # then what was typed is masked alike
        secrets = await known_secrets(work, info)
        masked = await work.threads.run(lambda: {one: mask_text(one, secrets) for one in prompts})
        said |= {_fold(text) for text in masked.values()}
        typed |= {_fold(masked[text]) for text, is_typed in prompts.items() if is_typed}
    known = [one for one in told if _is_among(said, one)]
    for one in known:
        if not _is_among(typed, one):  # noted first: until then it is hearsay
            event = Event(name=HEADLESS, at=work.now(), detail=one.ref)
            await work.store.add_event(info.id, event)
    await work.store.vouch(info.id, [one.seq for one in known])


def _is_among(said: Collection[str], message: Message) -> bool:
    """Whether every text of a message is one of these, but for what the host put in."""
    texts = (part.text for part in message.parts if isinstance(part, Text))
    return all(text in said for text in map(_fold, texts) if text)


def _fold(text: str) -> str:
    """A text without what a host put in; its lines count, since they tell what is a sentence."""
    lines = unify_lines(without_host_texts(text)).split("\n")
    return "\n".join(line.rstrip() for line in lines).strip()
