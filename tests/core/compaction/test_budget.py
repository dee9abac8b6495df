"""How a target is shared out."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mcp_compaction.core.compaction.budget import index_beside_names, names_limit
from mcp_compaction.core.policy import Policy
from mcp_compaction.model import Compaction, Projection
from tests.core.saying import WORDS, assistant, used, user
from tests.sessions import compress, session_of

POLICY = Policy(index_max_tokens=2_000)
STEPS = [step for n in range(60) for step in used(str(n), "f", f"{n} {WORDS}")]


def test_names_take_the_room_of_an_index_that_would_hold_its_label_and_little_more() -> None:
    assert names_limit(500, POLICY) == 125
    assert names_limit(2_000, POLICY) == 400


@given(st.integers(4, 100_000))  # a quarter of less is no whole token
def test_names_that_fill_their_room_leave_the_index_what_a_quarter_leaves(goal: int) -> None:
    names = names_limit(goal, Policy(index_max_tokens=100_000))
    assert names + index_beside_names(goal, names) <= max(goal * 25 // 100, names)


def test_a_dry_run_tells_the_budget_of_its_target_and_of_none() -> None:
    session = session_of([user("go"), *STEPS, assistant("done")])
    policy = Policy(window_tokens=4_000)
    targeted = compress(session, policy, target_percent=25.0, dry_run=True)
    assert isinstance(targeted, Projection)
    budget = targeted.budget
    assert budget is not None
    assert (budget.target, budget.request, budget.tail, budget.digest) == (1_000, 200, 600, 166)
    assert (budget.names, budget.index, budget.newest_request) == (200, 250, 400)
    freely = compress(session, policy, dry_run=True)
    assert isinstance(freely, Projection)
    assert freely.budget is not None
    assert (freely.budget.target, freely.budget.tail) == (2_400, policy.tail_limit)
    assert freely.budget.excerpts <= policy.promoted_limit


def test_a_forced_compaction_gives_back_a_quarter_of_what_it_frees_at_most() -> None:
    session = session_of([user("go"), *STEPS, assistant("done")])
    bare = compress(session, Policy(window_tokens=4_000, promoted_max_percent=0.0), force=True)
    done = compress(session, Policy(window_tokens=4_000), force=True)
    assert isinstance(bare, Compaction)
    assert isinstance(done, Compaction)
    given_back = done.receipt.after - bare.receipt.after
    assert 0 < 4 * given_back <= bare.receipt.before - bare.receipt.after


def test_a_span_is_compressed_whatever_the_target_and_has_no_budget() -> None:
    session = session_of([user("go"), *STEPS, assistant("done")])
    outcome = compress(session, Policy(window_tokens=4_000), span=(4, 60), dry_run=True)
    assert isinstance(outcome, Projection)
    assert outcome.budget is None
