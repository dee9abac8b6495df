"""Reads what the last compaction of a session is graded by."""

from __future__ import annotations

from collections.abc import Sequence

from mcp_compaction.compactor.results import count_recalls
from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.core.compaction.grading import grade_last, may_grade
from mcp_compaction.model import Event, Grade, Session, View

_MOST_READ = 2_000  # messages from before the compaction


async def read_grade(work: Workspace, session: Session, events: Sequence[Event]) -> Grade | None:
    """The grade of the last compaction; None where there is nothing to grade yet, or nobody wants
    it. `events`: of the session, of which recalls since then tell."""
    last = session.last_compaction
    if not work.policy.grade or last is None or not may_grade(session):
        return None
    recalled = count_recalls(event for event in events if event.at > last.at)
    stands = (session.view.version, session.info.messages, frozenset(recalled))
    known = work.grades.get(session.info.id)
    if known is not None and known[0] == stands:
        return known[1]
    earlier = max(0, session.view.upto - _MOST_READ)
    newest = View(gone=((1, earlier),) if earlier else ())
    found = await work.store.load(session.info.id, work.now(), newest)
    grade = await work.threads.run(
        grade_last, session, found.messages, recalled, *work.index_terms(session)
    )
    work.grades.keep(session.info.id, (stands, grade))
    return grade
