"""Shortens results where they stand, between compactions: stale ones, and large ones on arrival."""

from __future__ import annotations

from collections.abc import Callable

from mcp_compaction.compactor.gauge import FillReading
from mcp_compaction.compactor.results import OFFLOADED, SHORTENED, FitOptions
from mcp_compaction.compactor.workspace import MOST_TRIES, Workspace
from mcp_compaction.core.compaction.ladder.shrink import microcompact
from mcp_compaction.core.log.conversation import has_request
from mcp_compaction.core.window.preview import offload, shorten_request
from mcp_compaction.model import Event, Kept, Session, SessionInfo, Trimmed, View

_LEAST_ROOM = 260  # tokens of a first request: a start, an end and a few rules


async def shorten(work: Workspace, info: SessionInfo, newest: int, options: FitOptions) -> None:
    """Show previews of what a loop wants shorter; results after `newest` have just come."""
    if options.offload_over_tokens is not None:
        await offload_since(work, info, newest, options.offload_over_tokens)
    if options.microcompact:
        await shorten_stale(work, info)
    if options.relieve:
        await shorten_first_request(work, info, await work.read_window(info))


async def shorten_stale(work: Workspace, info: SessionInfo) -> bool:
    """Show previews of large results outside the recent turns; says whether any is new."""

    def shorten(session: Session) -> View | None:
        return microcompact(session, work.policy_for(session), work.counter.count)

    return await _change_view(work, info, shorten, SHORTENED)


async def offload_since(work: Workspace, info: SessionInfo, newest: int, over: int) -> bool:
    """Show previews of the results after a message that take more tokens than `over`."""

    def shorten(session: Session) -> View | None:
        view = session.view
        words = {one.seq: one.words for one in view.reworded}
        known = {entry.seq for entry in view.since}
        cut = {
            message.seq: entry
            for message in session.messages
            if words.get(message.seq, message.seq) > newest and message.seq not in known
            if message.tokens > over
            if (entry := offload(message, over, work.counter.count))
        }
        body = tuple(cut.get(e.seq, e) if isinstance(e, Kept) else e for e in view.body)
        later = (entry for seq, entry in cut.items() if seq > view.upto)
        changed = view.model_copy(update={"body": body, "since": (*view.since, *later)})
        return changed if changed != view else None

    return await _change_view(work, info, shorten, OFFLOADED)


async def shorten_first_request(work: Workspace, info: SessionInfo, window: FillReading) -> bool:
    """Show a preview of a first request that does not fit and that nothing follows yet.

    It takes the room there is below the release mark.
    """
    if not is_over_net(work, window) or not await has_only_head(work, window):
        return False

    def shorten(session: Session) -> View | None:
        message, fill = session.messages[-1], window.fill
        if not has_request(message) or isinstance(session.view.head[-1], Trimmed):
            return None
        room = int(window.policy.release_tokens / fill.ratio) - (fill.counted - message.tokens)
        most = max(_LEAST_ROOM, room)
        cut = shorten_request(message, most, work.counter.count, keeps_all=False)
        if not cut.cuts or cut.tokens >= message.tokens:
            return None
        return session.view.model_copy(update={"head": (*session.view.head[:-1], cut)})

    return await _change_view(work, info, shorten, OFFLOADED)


def is_over_net(work: Workspace, window: FillReading) -> bool:
    """Whether a window is so full that nothing is waited for, whatever is kept in reserve."""
    return window.fill.percent > work.policy.safety_threshold_percent


async def has_only_head(work: Workspace, window: FillReading) -> bool:
    """Whether a window shows nothing but what a history begins with."""
    view, info = window.session.view, window.session.info
    if not view.is_begun or view.body or view.upto != info.messages:
        return False
    session = await work.load(info)
    return bool(session.view.head) and not session.view.body


async def _change_view(
    work: Workspace, info: SessionInfo, change: Callable[[Session], View | None], event: str
) -> bool:
    for _ in range(MOST_TRIES):
        session = await work.load(info)
        view = await work.threads.run(change, session)
        if view is None:
            return False
        named = ", ".join(f"m{entry.seq}" for entry in _new_cuts(session.view, view))
        noted = Event(name=event, at=work.now(), detail=named)
        if await work.store.save_view(info.id, view, session.view.version, noted):
            return True
    return False


def _new_cuts(before: View, after: View) -> list[Trimmed]:
    known = (*before.head, *before.body, *before.since)
    shown = (*after.head, *after.body, *after.since)
    return [e for e in shown if isinstance(e, Trimmed) and e not in known]
