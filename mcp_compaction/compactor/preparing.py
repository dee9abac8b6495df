"""Prepares for a window that somebody else empties: digests all that was said, and gives records.

What is shown stays as it is. The prepared view is kept beside the shown one, and counts until that
one changes; the next preparation goes on from it, so that only new messages are digested.
"""

from __future__ import annotations

from mcp_compaction.compactor.compressing import run_alone
from mcp_compaction.compactor.driving import Drafts, drive
from mcp_compaction.compactor.progress import ignore_progress
from mcp_compaction.compactor.results import Prepared
from mcp_compaction.compactor.workspace import MOST_TRIES, Workspace
from mcp_compaction.core.compaction.receipt.reasons import NOTHING_TO_PREPARE, explain_overtaken
from mcp_compaction.core.policy import Policy
from mcp_compaction.core.window.fill import ratio_of
from mcp_compaction.core.window.records import records_of
from mcp_compaction.errors import InputError
from mcp_compaction.model import (
    Ask,
    Calibration,
    Compaction,
    Failed,
    NothingToDo,
    Outcome,
    Session,
    SessionInfo,
)


async def prepare(work: Workspace, info: SessionInfo) -> Prepared | Outcome:
    """Digest everything but the newest steps, whatever the fill; the window shows what it showed.

    While another compacts the session, in whatever process, that one's end is waited for.
    """
    return await run_alone(work, info, lambda: _prepare(work, info))


async def records(
    work: Workspace, info: SessionInfo, max_chars: int | None, max_tokens: int | None
) -> str:
    """The pins, digests and index that a window needs after somebody else emptied it."""
    given = [limit for limit in (max_chars, max_tokens) if limit is not None]
    if len(given) != 1 or given[0] < 1:
        raise InputError("pass either max_chars or max_tokens, as a number above 0.")
    session = await _load_prepared(work, info)
    if max_tokens is None:
        return await work.threads.run(records_of, session, given[0], len)
    limit = int(max_tokens / ratio_of(session))
    return await work.threads.run(records_of, session, limit, work.counter.count)


async def _prepare(work: Workspace, info: SessionInfo) -> Prepared | Outcome:
    drafts: Drafts = []
    ask = Ask(reason="prepare", force=True)
    for _ in range(MOST_TRIES):
        session = await _load_prepared(work, info)
        if not _has_undigested(session):
            return NothingToDo(reason="already_prepared", text=NOTHING_TO_PREPARE)
        # The fill of the window that is shown says nothing about what is prepared beside it.
        session = session.model_copy(update={"calibration": Calibration()})
        policy = _policy_to_prepare(work.policy_for(session))
        outcome = await drive(work, session, ask, ignore_progress, drafts, policy)
        if not isinstance(outcome, Compaction):
            return outcome
        if await work.store.save_prepared(info.id, outcome):
            return _prepared_of(session, outcome)
    return Failed(reason="view_changed", text=explain_overtaken(info.name, MOST_TRIES))


async def _load_prepared(work: Workspace, info: SessionInfo) -> Session:
    """The session seen through the view that was prepared; through the shown one without any."""
    view = await work.store.prepared_view(info.id)
    return await work.load(info, view)


def _has_undigested(session: Session) -> bool:
    """Whether there is anything that the last preparation has not seen."""
    is_prepared = session.view.version < 0
    seen = session.view.upto if is_prepared else 0
    return any(message.seq > seen for message in session.messages)


def _policy_to_prepare(policy: Policy) -> Policy:
    """The policy by which only the newest turns stay, however much of the window is free."""
    return policy.model_copy(
        update={"preserve_recent_percent": None, "compaction_ratio": None, "tail_max_percent": 0.0}
    )


def _prepared_of(session: Session, compaction: Compaction) -> Prepared:
    known = (*session.digests, *compaction.digests)
    return Prepared(
        digests=compaction.digests,
        digested_upto=max((digest.last for digest in known), default=0),
        notes=compaction.receipt.notes,
    )
