"""Statistics of a session: its fill, what compressing would free, and what happened so far."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from mcp_compaction.compactor.checking import held_calls
from mcp_compaction.compactor.driving import drive
from mcp_compaction.compactor.gauge import FillReading, Regret, Stats
from mcp_compaction.compactor.grading import read_grade
from mcp_compaction.compactor.offering import suggest
from mcp_compaction.compactor.results import (
    FACT_TOLD,
    FALLBACK,
    HEADLESS,
    MASKED,
    RECORDING,
    REGRET,
    count_recalls,
    paid_in,
)
from mcp_compaction.compactor.workspace import Workspace, ignore_progress
from mcp_compaction.core.excerpts.render import wanted_excerpts
from mcp_compaction.core.window.fill import pressure
from mcp_compaction.model import Ask, Event, Session, SessionInfo
from mcp_compaction.ports import OUR_VIEW, Past

_NOT_COUNTED = (FACT_TOLD, HEADLESS, MASKED, REGRET, RECORDING)
_MOST_SUGGESTED = 5  # rules to pin
# Of a window that holds more than it can.
_WINDOWS_READ = 1.1
_MOST_READ = 2_000  # messages, though fewer would fill it
_FIRST_READ = 100  # in which most rules are said


async def load_newest(work: Workspace, info: SessionInfo) -> tuple[Session, Past, FillReading]:
    """The session with as many of its messages as statistics need: where they are more than its
    window can hold, the first and the newest, which fill it."""
    reading = await work.read_window(info)
    fill, view, last = reading.fill, reading.session.view, reading.session.info.messages
    share = _WINDOWS_READ * fill.window / max(1, fill.tokens)
    most = max(_MOST_READ, int(share * reading.messages))
    while view.upto + _FIRST_READ < last - most:
        shown = await work.store.view(info.id, view.version)
        between = (view.upto + _FIRST_READ + 1, last - most)
        seen = shown.model_copy(update={"gone": (*shown.gone, between)})
        session, past = await work.load_with_past(info, seen)
        part = await work.threads.run(work.fill_of, session)
        if part.tokens > min(fill.tokens, fill.window):
            return session, past, reading
        most *= 2
    return *await work.load_with_past(info), reading


async def read_stats(work: Workspace, info: SessionInfo) -> Stats:
    """Fill, pressure, what compressing would free, pins and what happened so far."""
    return await stats_of(work, *await load_newest(work, info))


async def stats_of(work: Workspace, session: Session, past: Past, reading: FillReading) -> Stats:
    """The statistics of a session that was loaded with its messages, or the newest of them; they
    cost a plan of these."""
    unread = max(0, reading.messages - len(session.messages))
    fill = reading.fill if unread else await work.threads.run(work.fill_of, session)
    events = past.events
    counts = Counter(
        e.name for e in events if e.name not in _NOT_COUNTED and not e.detail.startswith(OUR_VIEW)
    )
    dry_run = Ask(reason="stats", dry_run=True)
    return Stats(
        info=session.info,
        fill=fill,
        pressure=pressure(fill, work.policy_for(session)),
        would_free=await drive(work, session, events, dry_run, ignore_progress, []),
        pins=session.pins,
        shown=reading.messages,
        unread=unread,
        digests=len(session.digests),
        events=tuple(sorted(counts.items())),
        last=session.last_compaction,
        offer=await suggest(work, _with_fewer_messages(session), past, _MOST_SUGGESTED),
        regret=await _regret_of(work, session, reading.messages, events),
        grade=await read_grade(work, session, events),
        system=await work.store.spent(session.info.id),
        last_fall=next((e.detail for e in reversed(events) if e.name == FALLBACK), ""),
        paid=paid_in(events),
        held=await held_calls(work, session.info),
        is_pressed=session.is_pressed,
    )


def _with_fewer_messages(session: Session) -> Session:
    """The session with the first and the newest of its messages, where it has many."""
    messages = session.messages
    if len(messages) <= _FIRST_READ + _MOST_READ:
        return session
    kept = (*messages[:_FIRST_READ], *messages[-_MOST_READ:])
    return session.model_copy(update={"messages": kept})


async def _regret_of(
    work: Workspace, session: Session, shown: int, events: Sequence[Event]
) -> Regret:
    seqs = {*count_recalls(events)}
    again = seqs - {*await work.store.not_shown(session.info.id, sorted(seqs))}
    put_back = {one.seq for one in wanted_excerpts(session.view.promoted)}
    return Regret(
        recalls=sum(event.name == REGRET for event in events),
        recalled=len(seqs),
        dropped=session.info.messages - shown - len(put_back) + len(again),
    )
