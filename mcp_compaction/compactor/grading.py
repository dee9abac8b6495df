"""Reads what the last compaction of a session is graded by."""

from __future__ import annotations

from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.core.compaction.grading import grade_last, may_grade
from mcp_compaction.model import Grade, Session, View

_MOST_READ = 2_000  # messages from before the compaction


async def read_grade(work: Workspace, session: Session) -> Grade | None:
    """The grade of the last compaction; None where there is nothing to grade yet."""
    if not may_grade(session):
        return None
    earlier = max(0, session.view.upto - _MOST_READ)
    newest = View(gone=((1, earlier),) if earlier else ())
    found = await work.store.load(session.info.id, work.now(), newest)
    return await work.threads.run(grade_last, session, found.messages, work.counter.count)
