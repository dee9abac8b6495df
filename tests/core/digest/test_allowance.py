"""Limits on what summaries may take: how much is left, when it is near, what is said."""

from __future__ import annotations

import pytest

from mcp_compaction.core.digest.allowance import Allowance, Limits, allowance_of
from mcp_compaction.model import Spent


def test_the_tighter_limit_says_how_much_is_left() -> None:
    limits = Limits(calls_per_hour=60, cost_per_session=2, cost_per_hour=9)
    left = allowance_of(Spent(calls=10, cost=0.5), Spent(calls=20, cost=8), limits)
    assert left == Allowance(calls_left=40, cost_left=1, is_near=True)
    assert allowance_of(Spent(calls=195), Spent(), limits).calls_left == 60


@pytest.mark.parametrize(
    ("session", "hour", "limits", "said"),
    [
        (
            Spent(),
            Spent(calls=60),
            Limits(calls_per_hour=60),
            "60 of 60 model calls per hour are made; raise summarizer_max_calls_per_hour",
        ),
        (
            Spent(calls=1, cost=2.5),
            Spent(),
            Limits(calls_per_hour=9, cost_per_session=2),
            "$2.50 of $2.00 per session are spent; raise summarizer_max_cost_per_session",
        ),
        (
            Spent(),
            Spent(cost=1),
            Limits(cost_per_hour=1),
            "$1.00 of $1.00 per hour are spent; raise summarizer_max_cost_per_hour",
        ),
    ],
)
def test_a_limit_that_is_reached_is_named_with_its_numbers_and_its_setting(
    session: Spent, hour: Spent, limits: Limits, said: str
) -> None:
    left = allowance_of(session, hour, limits)
    assert left.refusal == f"{said} for more"
    assert left.calls_left == 0
    assert left.is_near


@pytest.mark.parametrize(("calls", "is_near"), [(79, False), (80, True)])
def test_a_limit_is_near_from_four_fifths_on(calls: int, is_near: bool) -> None:
    assert allowance_of(Spent(), Spent(calls=calls), Limits(calls_per_hour=100)).is_near is is_near
