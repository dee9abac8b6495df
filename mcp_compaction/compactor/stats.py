"""Statistics of a session: its fill, what compressing would free, and what happened so far."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from mcp_compaction.compactor.checking import held_calls
from mcp_compaction.compactor.driving import drive
from mcp_compaction.compactor.events import (
    FACT_TOLD,
    FALLBACK,
    HEADLESS,
    MASKED,
    RECORDING,
    REGRET,
    count_recalls,
    paid_in,
)
from mcp_compaction.compactor.offering import suggest
from mcp_compaction.compactor.progress import ignore_progress
from mcp_compaction.compactor.statistics import Regret, Stats
from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.core.excerpts.paging import wanted_excerpts
from mcp_compaction.core.window.fill import pressure
from mcp_compaction.model import Ask, Event, Session

_NOT_COUNTED = (FACT_TOLD, HEADLESS, MASKED, REGRET, RECORDING)
_MOST_SUGGESTED = 5  # rules to pin


async def stats_of(work: Workspace, session: Session) -> Stats:
    """The statistics of a loaded session; they cost a plan of its whole window."""
    fill = await work.threads.run(work.fill_of, session)
    events = await work.store.events(session.info.id)
    counts = Counter(event.name for event in events if event.name not in _NOT_COUNTED)
    dry_run = Ask(reason="stats", dry_run=True)
    return Stats(
        info=session.info,
        fill=fill,
        pressure=pressure(fill, work.policy_for(session)),
        would_free=await drive(work, session, dry_run, ignore_progress, []),
        pins=session.pins,
        shown=len(session.messages),
        digests=len(session.digests),
        events=tuple(sorted(counts.items())),
        last=session.last_compaction,
        offer=await suggest(work, session, _MOST_SUGGESTED),
        regret=_regret_of(session, events),
        system=await work.store.spent(session.info.id),
        last_fall=next((e.detail for e in reversed(events) if e.name == FALLBACK), ""),
        paid=paid_in(events),
        held=await held_calls(work, session.info),
        is_pressed=session.is_pressed,
    )


def _regret_of(session: Session, events: Sequence[Event]) -> Regret:
    seqs = {*count_recalls(events)}
    shown = {message.seq for message in session.messages}
    shown |= {one.seq for one in wanted_excerpts(session.view.promoted)}
    return Regret(
        recalls=sum(event.name == REGRET for event in events),
        recalled=len(seqs),
        dropped=session.info.messages - len(shown - seqs),
    )
