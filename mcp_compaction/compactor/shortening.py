"""Shortens results where they stand, between compactions: stale ones, and large ones on arrival."""

from __future__ import annotations

from collections.abc import Callable

from mcp_compaction.compactor.events import OFFLOADED, SHORTENED
from mcp_compaction.compactor.workspace import MOST_TRIES, Workspace
from mcp_compaction.core.compaction.microcompact import microcompact
from mcp_compaction.core.log.conversation import has_request
from mcp_compaction.core.window.offload import offload
from mcp_compaction.model import Event, Kept, Session, SessionInfo, Trimmed, View


async def shorten_stale(work: Workspace, info: SessionInfo) -> bool:
    """Show previews of large results outside the recent turns; says whether any is new."""

    def shorten(session: Session) -> View | None:
        return microcompact(session, work.policy_for(session), work.counter.count)

    return await _change_view(work, info, shorten, SHORTENED)


async def offload_since(work: Workspace, info: SessionInfo, newest: int, over: int) -> bool:
    """Show previews of the results after a message that take more tokens than `over`."""

    def shorten(session: Session) -> View | None:
        view = session.view
        asked = next((m.text for m in reversed(session.messages) if has_request(m)), "")
        words = {one.seq: one.words for one in view.reworded}
        known = {entry.seq for entry in view.since}
        cut = {
            message.seq: entry
            for message in session.messages
            if words.get(message.seq, message.seq) > newest and message.seq not in known
            if message.tokens > over
            if (entry := offload(message, over, asked, work.counter.count))
        }
        body = tuple(cut.get(e.seq, e) if isinstance(e, Kept) else e for e in view.body)
        later = (entry for seq, entry in cut.items() if seq > view.upto)
        changed = view.model_copy(update={"body": body, "since": (*view.since, *later)})
        return changed if changed != view else None

    return await _change_view(work, info, shorten, OFFLOADED)


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
    known = (*before.body, *before.since)
    return [e for e in (*after.body, *after.since) if isinstance(e, Trimmed) and e not in known]
