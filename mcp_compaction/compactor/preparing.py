"""Prepares for a window that somebody else empties: digests all that was said.

What is shown stays as it is. The prepared view is kept beside the shown one, and counts until that
one changes; the next preparation goes on from it, so that only new messages are digested.
"""

from __future__ import annotations

from mcp_compaction.compactor.compressing import overtaken, run_alone
from mcp_compaction.compactor.driving import Drafts, drive
from mcp_compaction.compactor.records import load_prepared
from mcp_compaction.compactor.results import REGRET, Prepared
from mcp_compaction.compactor.workspace import MOST_TRIES, Workspace, ignore_progress
from mcp_compaction.model import (
    Ask,
    Calibration,
    Compaction,
    NothingToDo,
    Outcome,
    Session,
    SessionInfo,
    View,
)

# Only the newest turns stay, however much of the window is free.
_ONLY_NEWEST = {"preserve_recent_percent": None, "compaction_ratio": None, "tail_max_percent": 0.0}


async def prepare(work: Workspace, info: SessionInfo) -> Prepared | Outcome:
    """Digest everything but the newest steps, whatever the fill; the window shows what it showed.

    While another compacts the session, in whatever process, that one's end is waited for.
    """
    return await run_alone(work, info, lambda: _prepare(work, info))


async def digest_log(work: Workspace, info: SessionInfo) -> Session:
    """The session as it would be with all of its log digested but the newest steps, whatever its
    window has lost; nothing of that is kept."""
    session = await work.load(info, View())
    session = session.model_copy(update={"calibration": Calibration()})
    policy = work.policy_for(session).model_copy(update=_ONLY_NEWEST)
    outcome = await drive(
        work, session, (), Ask(reason="prepare", force=True), ignore_progress, [], policy
    )
    if not isinstance(outcome, Compaction):
        return session
    known = (*session.digests, *outcome.digests)
    return session.model_copy(update={"view": outcome.view, "digests": known})


async def _prepare(work: Workspace, info: SessionInfo) -> Prepared | Outcome:
    drafts: Drafts = []
    ask = Ask(reason="prepare", force=True)
    for _ in range(MOST_TRIES):
        session = await load_prepared(work, info)
        if not _has_undigested(session):
            text = "nothing to prepare: nothing was said since the last time. Go on."
            return NothingToDo(reason="already_prepared", text=text)
        # The fill of the window that is shown says nothing about what is prepared beside it.
        session = session.model_copy(update={"calibration": Calibration()})
        policy = work.policy_for(session).model_copy(update=_ONLY_NEWEST)
        recalls = await work.store.events(info.id, REGRET)
        outcome = await drive(work, session, recalls, ask, ignore_progress, drafts, policy)
        if not isinstance(outcome, Compaction):
            return outcome
        if await work.store.save_prepared(info.id, outcome):
            return _prepared_of(session, outcome)
    return overtaken(info)


def _has_undigested(session: Session) -> bool:
    """Whether there is anything that the last preparation has not seen."""
    is_prepared = session.view.version < 0
    seen = session.view.upto if is_prepared else 0
    return any(message.seq > seen for message in session.messages)


def _prepared_of(session: Session, compaction: Compaction) -> Prepared:
    known = (*session.digests, *compaction.digests)
    return Prepared(
        digests=compaction.digests,
        digested_upto=max((digest.last for digest in known), default=0),
        notes=compaction.receipt.notes,
        running=compaction.running,
    )
