"""Leaves thinking out of what a session sends, where it is bound to another beginning."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from mcp_compaction.compactor.results import THINKING_REFUSED, THINKING_REMOVED
from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.errors import StoreError
from mcp_compaction.formats import render
from mcp_compaction.formats.content import parse_object
from mcp_compaction.formats.identity import fingerprints_of
from mcp_compaction.formats.thinking import (
    LEFT_OUT,
    NOWHERE,
    UNNAMED,
    Bindings,
    Left,
    Sending,
    has_thinking,
    may_be_bound,
    print_beside,
    removed_in,
    thinking_in,
)
from mcp_compaction.model import JsonObject, Message, Session, SessionInfo, Shape, ShownMessage

logger = logging.getLogger(__name__)


async def bindings_of(work: Workspace, info: SessionInfo) -> Bindings:
    """What is known of the thinking of a session; read from the store once."""
    if info.id not in work.thinking:
        work.thinking.keep(info.id, Bindings(await work.store.thinking(info.id)))
    return work.thinking[info.id]


async def learn_again(work: Workspace, info: SessionInfo) -> None:
    """Learn what another process has kept of a session's thinking meanwhile."""
    known = work.thinking.get(info.id)
    if known is not None:
        known.learn(await work.store.thinking(info.id))


async def leave_out_thinking(
    work: Workspace, info: SessionInfo, own: Sending, sending: Sending, model: str, shape: Shape
) -> Left | None:
    """What to send of a request that stands for a caller's own history; None: all of it."""
    if not may_be_bound(model):
        return None
    if shape != "anthropic" and not has_thinking(own.messages):
        return None
    bindings = await bindings_of(work, info)
    left = bindings.send(own, sending, model)
    await _save(work, info, bindings, model)
    return left


async def _save(work: Workspace, info: SessionInfo, bindings: Bindings, model: str) -> None:
    """Keep in the store what is new, of a model that binds."""
    changes = bindings.changes() if bindings.is_bound(model) else {}
    if not changes:
        return
    try:
        await work.store.keep_thinking(info.id, changes)
    except StoreError as error:  # what is sent now is right without it
        logger.warning("what is known of thinking could not be kept: %s", error)
        bindings.put_back(changes)


def note_passing(work: Workspace, info: SessionInfo) -> None:
    """Note that something was sent behind the last request that will not be sent again."""
    known = work.thinking.get(info.id)
    if known is not None:
        known.note_passing()


async def bind_answer(
    work: Workspace,
    info: SessionInfo,
    answer: JsonObject,
    messages: Sequence[JsonObject],
    model: str,
) -> None:
    """Bind the thinking of an answer to the request that was sent last, and note what of that its
    provider says to have left out."""
    for why in sorted(removed_in(answer)):
        await work.note(info, THINKING_REMOVED.format(why.upper()), "")
    is_told = has_thinking(messages) or "input_transformations" in answer
    if not is_told or not may_be_bound(model):
        return
    bindings = await bindings_of(work, info)
    bindings.note_removed(answer, model)
    bindings.bind_answer(messages)
    await _save(work, info, bindings, model)


async def leave_out_of_view(
    work: Workspace,
    session: Session,
    messages: list[JsonObject],
    shape: Shape,
    *,
    model: str,
    is_sent: bool,
) -> list[JsonObject]:
    """The messages of a view without the blocks that are good no more.

    The caller keeps no history of its own: the log is that, and a block was made behind the view
    that was sent when the message before it was the newest. Of a model without a name all is taken
    for bound.
    """
    info = session.info
    if shape == "openai" or not may_be_bound(model):
        return messages
    bindings = await bindings_of(work, info)
    beside = print_beside(session.sections.system, None)
    await work.threads.run(_bind_log, bindings, session, beside, shape)
    sending = Sending(beside, messages, fingerprints_of(messages))
    left = bindings.leave_out(sending, model or UNNAMED, for_good=is_sent)
    if is_sent:
        bindings.note_sent(_log_mark(info.messages), sent=left.mark)
        await _save(work, info, bindings, model or UNNAMED)
    return left.messages


def _bind_log(bindings: Bindings, session: Session, beside: bytes, shape: Shape) -> None:
    """Bind the blocks of a session's messages that are new."""
    before = 0  # the newest message that the model has not said itself
    unknown: list[str] = []
    for message in session.messages:
        if message.role != "assistant":
            before = message.seq
            continue
        blocks = [b for b in _blocks_of(message) if bindings.beginning_of(b) is None]
        sent = bindings.sent_for(_log_mark(before)) if blocks else None
        if sent is not None:
            bindings.bind(blocks, sent)
        else:
            unknown += blocks
    if not unknown:
        return
    # What came before any view was sent was made behind the log as it is.
    start = [m for place, m in enumerate(session.messages, 1) if m.seq == place]
    whole = render([ShownMessage(message=message) for message in start], shape)
    bindings.bind_own(Sending(beside, whole, fingerprints_of(whole)))
    bindings.bind(unknown, NOWHERE)


def _blocks_of(message: Message) -> list[str]:
    """The thinking blocks of a recorded message."""
    if "thinking" not in message.raw and '"reasoning"' not in message.raw:
        return []
    return thinking_in(parse_object(message.raw, message.ref))


def _log_mark(newest: int) -> str:
    return f"log {newest}"


async def take_refusal(
    work: Workspace, info: SessionInfo, sent: Sending, model: str, place: tuple[int, int]
) -> Left:
    """What to send after a provider has refused a block: that one and all later ones leave.

    `model`: empty where the session alone knows it.
    """
    model = model or (await work.load_window(info)).info.traits.model or ""
    bindings = await bindings_of(work, info)
    left = bindings.take_refusal(model, sent, *place)
    await _save(work, info, bindings, model)
    await work.note(info, THINKING_REFUSED, f"{left.gone} blocks of {model or 'a model'}")
    return left


async def list_thinking_left_out(
    work: Workspace, session: Session, layout: Sequence[str], before: Sequence[str]
) -> tuple[str, ...]:
    """The refs of a layout whose thinking has to be left out; `before`: the layout that a program
    had until now. Both are texts: those of messages begin with their refs."""
    model = session.info.traits.model or ""
    if not may_be_bound(model):
        return ()
    bindings = await bindings_of(work, session.info)
    if not bindings.is_bound(model):
        return ()
    same = 0
    while same < min(len(layout), len(before)) and layout[same] == before[same]:
        same += 1
    by_ref = {message.ref: message for message in session.messages}
    found: list[str] = []
    for place, word in enumerate(layout):
        ref = word.partition(" ")[0]
        blocks = _blocks_of(by_ref[ref]) if ref in by_ref else []
        # Also what was said while the view was made: its program did not have it yet.
        if blocks and place >= same:
            bindings.give_up(blocks)
        if any(bindings.beginning_of(block) == LEFT_OUT for block in blocks):
            found.append(ref)
    await _save(work, session.info, bindings, model)
    return tuple(found)
