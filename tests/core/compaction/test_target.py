"""An explicit target is kept, and filled with the newest steps before old excerpts."""

from __future__ import annotations

import pytest

from mcp_compaction.core.policy import Policy
from mcp_compaction.core.tokens import estimate
from mcp_compaction.core.window.fill import measure
from mcp_compaction.model import Compaction, Kept, Outcome, ToolResult, Trimmed
from tests.core.saying import WORDS, Json, assistant, chatter, used, user
from tests.sessions import after, compress, said, session_of
from tests.strategies import coding_session

LARGE = "".join(f"line {n} of a large file\n" for n in range(400))


def done(outcome: Outcome) -> Compaction:
    """The compaction that was made."""
    assert isinstance(outcome, Compaction)
    return outcome


def test_what_users_said_comes_before_a_longer_tail() -> None:
    def tail_of(more: list[Json]) -> int:
        steps = [step for n in range(60) for step in used(str(n), "f", f"{n} {WORDS}")]
        session = session_of([user("go"), *more, *steps, assistant("done")])
        outcome = done(compress(session, Policy(window_tokens=4_000), target_percent=25.0))
        return sum(isinstance(entry, Kept) for entry in outcome.view.body)

    wishes = [user(f"I would like part {n} to be blue. {WORDS}") for n in range(8)]
    assert tail_of(wishes) < tail_of([])


def test_a_new_step_that_is_too_large_for_a_target_is_cut_and_its_call_gives_way_last() -> None:
    script = "print('a line of the script')\n" * 40
    steps = [
        *used("1", "f", LARGE),
        *used("2", "write", LARGE, content=script),
        *used("3", "f", "ok"),
    ]
    session = session_of([user("go"), *chatter(40), *steps, assistant("done")])
    policy = Policy(window_tokens=10_000)
    outcome = done(compress(session, policy, target_percent=30.0))
    shown = [e for e in outcome.view.body if isinstance(e, Trimmed)]
    assert {type(cut.shown) for e in shown for cut in e.cuts} == {ToolResult}
    assert outcome.receipt.after <= 3_000


@pytest.mark.parametrize("percent", [None, 30])
@pytest.mark.parametrize(("window", "seed"), [(2_000, 3), (2_000, 4), (3_000, 5)])
def test_a_small_window_keeps_to_its_goal_through_many_compactions(
    percent: float | None, window: int, seed: int
) -> None:
    policy = Policy(window_tokens=window)
    goal = window * (percent or policy.release_percent) // 100
    session = session_of(list(coding_session(24, 250, seed=seed)))
    numbered = len(session.messages)
    for number in range(4):
        outcome = compress(session, policy, target_percent=percent)
        session = after(session, outcome)
        assert isinstance(outcome, Compaction)
        assert measure(session, policy, estimate).counted <= goal
        more = list(coding_session(12, 250, seed=seed + 10 + number))
        session = said(session, more, numbered)
        numbered += len(more)
