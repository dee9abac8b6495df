"""How a target is shared out."""

from __future__ import annotations

from mcp_compaction.core.policy import Policy
from mcp_compaction.model import Complexity, Projection
from tests.core.saying import WORDS, assistant, used, user
from tests.sessions import compress, session_of

STEPS = [step for n in range(60) for step in used(str(n), "f", f"{n} {WORDS}")]


def test_a_dry_run_tells_the_budget_of_its_target_and_of_none() -> None:
    session = session_of([user("go"), *STEPS, assistant("done")])
    policy = Policy(window_tokens=4_000)
    targeted = compress(session, policy, target_percent=25.0, dry_run=True)
    assert isinstance(targeted, Projection)
    budget = targeted.budget
    assert budget is not None
    assert (budget.target, budget.request, budget.tail, budget.digest) == (1_000, 200, 400, 166)
    assert (budget.names, budget.index, budget.newest_request) == (250, 125, 400)
    freely = compress(session, policy, dry_run=True)
    assert isinstance(freely, Projection)
    assert freely.budget is not None
    assert (freely.budget.target, freely.budget.tail) == (2_400, 2_400 * 2 // 5)
    assert freely.budget.excerpts <= freely.budget.target
    bare = policy.model_copy(update={"tail_max_percent": 10})
    narrow = compress(session, bare, dry_run=True)
    assert isinstance(narrow, Projection)
    assert narrow.budget is not None
    assert narrow.budget.tail == bare.tail_limit


def test_a_span_is_compressed_whatever_the_target_and_has_no_budget() -> None:
    session = session_of([user("go"), *STEPS, assistant("done")])
    outcome = compress(session, Policy(window_tokens=4_000), span=(4, 60), dry_run=True)
    assert isinstance(outcome, Projection)
    assert outcome.budget is None


def test_the_more_complex_a_task_the_more_of_its_newest_steps_stays():
    session = session_of([user("go"), *STEPS])

    def tail_of(complexity: Complexity) -> int:
        policy = Policy(window_tokens=8_000, tail_max_percent=100, complexity=complexity)
        planned = compress(session, policy, dry_run=True, force=True, target_percent=40.0)
        assert isinstance(planned, Projection)
        assert planned.budget is not None
        return planned.budget.tail

    assert tail_of("simple") < tail_of("medium")
