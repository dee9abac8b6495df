"""Records messages: what is known already keeps its number, the rest is appended."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Sequence

from mcp_compaction.compactor.workspace import MOST_ROWS, Workspace, scope_of
from mcp_compaction.core.text.refs import number_of
from mcp_compaction.core.window.render import lay_out
from mcp_compaction.errors import StoreError
from mcp_compaction.formats import Incoming, IncomingMessage, normalize, render
from mcp_compaction.formats.prepare import (
    count_masked_in_new,
    count_sections,
    mask_sections,
    prepare_message,
)
from mcp_compaction.model import Message, NewMessage, Sections, Session, SessionInfo, Via
from mcp_compaction.ports import Batch, Recorded

logger = logging.getLogger(__name__)

_MOST_AFTER_ANSWER = 50  # messages among which the newest answer usually is


async def record(
    work: Workspace, info: SessionInfo, came: Incoming, after: str | None, via: Via
) -> Recorded:
    """Append what is not yet known; the result has the number of each message, in order.

    Via `tool`: an agent handed it over, so that it is only the agent's word who said what.
    """
    follows = number_of(after, "m") if after is not None else None
    if came.whole and after is None:
        came, follows = await _drop_own_view(work, info, came)
    messages = came.messages if via == "host" else _without_ids(came.messages)
    ready = await work.threads.run(_prepare_messages, work, messages)
    sections, fixed, memory = await work.threads.run(_prepare_sections, work, came)
    seqs: list[int] = []
    new = 0
    diverged: int | None = None
    masked = Counter[str]()
    # A whole history is aligned in one piece: half of it would look like another one.
    most = max(1, len(ready)) if came.whole else MOST_ROWS
    for start in range(0, max(1, len(ready)), most):
        rows = tuple(ready[start : start + most])
        batch = Batch(
            messages=rows,
            counter=work.counter.id,
            via=via,
            after=follows if start == 0 else seqs[-1],
            whole=came.whole and start == 0,
            sections=sections if start == 0 else None,
            section_tokens=fixed,
            memory_tokens=memory,
        )
        done = await work.store.append(info.id, batch, work.now())
        seqs += done.seqs
        new += done.new
        diverged = diverged or done.diverged
        masked += count_masked_in_new(rows, done)
    traits = came.traits_over(info.traits)
    if traits != info.traits:
        await work.store.set_traits(info.id, traits)
    if came.reported is not None and seqs:
        await _calibrate(work, info, came.reported)
    return Recorded(seqs=tuple(seqs), new=new, diverged=diverged, masked=masked)


async def _calibrate(work: Workspace, info: SessionInfo, reported: int) -> None:
    """Set what the provider counted beside our count of the same window."""
    window = await work.read_window(info)
    newest = window.session.info.messages
    first = max(window.session.view.upto, newest - _MOST_AFTER_ANSWER)
    found = await work.store.originals(scope_of(info), after=first)
    since = _messages_after_answer([original.message for original in found])
    if since is None:
        since = _messages_after_answer((await work.load(info)).messages) or ()
    overhead = window.policy.overhead_per_message
    later = sum(message.tokens + overhead for message in since)
    counted = window.fill.counted_by_us - later
    if counted > 0:
        await work.store.calibrate(info.id, counted, reported)


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


async def _drop_own_view(
    work: Workspace, info: SessionInfo, came: Incoming
) -> tuple[Incoming, int | None]:
    """The input without our own view, where a loop sends that back; and the newest known number."""
    window = await work.read_window(info)
    if not window.session.view.version or not came.messages:
        return came, None
    session = await work.load(info)
    shown = await work.threads.run(_length_of_view, work, session, came)
    if shown is None:
        return came, None
    rest = came.model_copy(update={"messages": came.messages[shown:], "whole": False})
    newest = max((message.seq for message in session.messages), default=session.view.upto)
    return rest, newest


def _length_of_view(work: Workspace, session: Session, came: Incoming) -> int | None:
    """The number of messages that are our own view; None where the batch does not begin with it."""
    shown = lay_out(session, *work.index_terms(session))
    sent = [normalize(message) for message in render(shown, came.messages[0].shape)]
    said = [normalize(json.loads(message.raw)) for message in came.messages[: len(sent)]]
    return len(sent) if said == sent else None


def _prepare_messages(work: Workspace, messages: Sequence[IncomingMessage]) -> list[NewMessage]:
    return [prepare_message(message, work.counter.count, work.mask_secrets) for message in messages]


def _prepare_sections(work: Workspace, came: Incoming) -> tuple[Sections | None, int, int]:
    """The sections without their secrets, and the tokens of what is fixed and of memory."""
    sections = came.sections
    if sections is None:
        return None, 0, 0
    sections = mask_sections(sections) if work.mask_secrets else sections
    return sections, *count_sections(sections, work.policy, work.counter.count)


def _without_ids(messages: Sequence[IncomingMessage]) -> tuple[IncomingMessage, ...]:
    """The messages without host ids: an agent could claim one and keep the real message out."""
    return tuple(message.model_copy(update={"host_id": None}) for message in messages)
