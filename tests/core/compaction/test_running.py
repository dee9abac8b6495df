"""What runs in the background is told in the newest digest and to the caller, until it ends."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from mcp_compaction.core.compaction.receipt import outcome_text
from mcp_compaction.core.digest.render import words_of_item
from mcp_compaction.core.policy import Policy
from mcp_compaction.model import Compaction, HostJobs, Session
from tests.core.saying import Json, chatter, ran, user
from tests.sessions import NOW, after, compress, said, session_of

SMALL = Policy(window_tokens=2_000)
STARTED = [
    *ran("1", "pnpm dev", "Command running in background with ID: bf7a97f. Output is in o"),
    *ran("2", "pnpm lint", "Command running in background with ID: c1d2e3f. Output is in o"),
]
DEV = "started in the background (bf7a97f): pnpm dev"
LINT = "started in the background (c1d2e3f): pnpm lint"


def notified(id: str) -> Json:
    told = f"<task-id>{id}</task-id>\n<status>completed</status>\n"
    return user(f"<task-notification>\n{told}</task-notification>")


def compacted(session: Session, **ask: Any) -> tuple[Compaction, Session]:
    done = compress(session, SMALL, force=True, **ask)
    assert isinstance(done, Compaction)
    return done, after(session, done)


def jobs_in(session: Session) -> list[str]:
    lines = [words_of_item(item) for one in session.digests for item in one.items("STATE")]
    return [line for line in lines if "background" in line]


def test_a_job_is_told_again_by_the_next_compaction_and_no_more_once_it_has_ended() -> None:
    start = [user("Go."), *STARTED, *chatter(20)]
    _, session = compacted(session_of(start))
    assert jobs_in(session) == [DEV, LINT]
    known = len(start)
    more = [notified("c1d2e3f"), *chatter(20)]
    done, session = compacted(said(session, more, known))
    assert jobs_in(session) == [DEV]
    assert [job.id for job in done.running] == ["bf7a97f"]
    known += len(more)
    _, session = compacted(said(session, [notified("bf7a97f"), *chatter(20)], known))
    assert jobs_in(session) == []


def test_what_the_host_says_has_ended_is_not_told() -> None:
    start = [user("Go."), *STARTED, *chatter(20)]
    word = HostJobs(at=NOW + timedelta(hours=1), kinds=("command",), names=("bf7a97f",))
    _, session = compacted(session_of(start), running=(word,))
    assert jobs_in(session) == [DEV]
    _, session = compacted(said(session, chatter(20), len(start)))
    none = word.model_copy(update={"names": ()})
    _, session = compacted(said(session, chatter(20), len(start) + 20), running=(none,))
    assert jobs_in(session) == []


def test_the_caller_is_told_what_still_runs() -> None:
    start = [user("Go."), *STARTED, *chatter(20)]
    done, _ = compacted(session_of(start))
    assert outcome_text(done).splitlines()[-1] == (
        "still running: 2 jobs: pnpm dev (bf7a97f); pnpm lint (c1d2e3f). What comes of it is told "
        "later: wait, or go on."
    )
    done, _ = compacted(session_of([user("Go."), *chatter(20)]))
    assert "still running" not in outcome_text(done)
