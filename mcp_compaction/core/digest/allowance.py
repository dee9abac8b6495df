"""Tells how many model calls a session may still make, and whether a limit is near."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from mcp_compaction.model import Spent, Value

_NEAR = 0.8


class Limits(Value):
    """The most that summaries may take; None: no limit. An hour counts for all sessions at once."""

    calls_per_hour: int | None = None
    cost_per_session: float | None = None  # dollars
    cost_per_hour: float | None = None


class Allowance(Value):
    """What may still be asked of models."""

    calls_left: int | None = None  # None: no limit
    cost_left: float | None = None
    refusal: str = ""  # why nothing may be asked, for the receipt
    is_near: bool = False  # four fifths of a limit are gone: budget pressure


class _Limit(NamedTuple):
    setting: str
    used: float
    most: float
    said: str


def allowance_of(session: Spent, hour: Spent, limits: Limits) -> Allowance:
    """The allowance left after what this session took, and what all took in the last hour."""
    known = list(_limits_of(session, hour, limits))
    gone = next((limit for limit in known if limit.used >= limit.most), None)
    calls = [int(limit.most - limit.used) for limit in known if "calls" in limit.setting]
    costs = [max(0.0, limit.most - limit.used) for limit in known if "cost" in limit.setting]
    return Allowance(
        calls_left=0 if gone else min(calls, default=None),
        cost_left=min(costs, default=None),
        refusal=f"{gone.said}; raise {gone.setting} for more" if gone else "",
        is_near=any(limit.most and limit.used >= _NEAR * limit.most for limit in known),
    )


def _limits_of(session: Spent, hour: Spent, limits: Limits) -> Iterator[_Limit]:
    if (most := limits.calls_per_hour) is not None:
        said = f"{hour.calls} of {most} model calls per hour are made"
        yield _Limit("summarizer_max_calls_per_hour", hour.calls, most, said)
    for span, spent, dollars in (
        ("session", session, limits.cost_per_session),
        ("hour", hour, limits.cost_per_hour),
    ):
        if dollars is not None:
            said = f"${spent.cost:.2f} of ${dollars:.2f} per {span} are spent"
            yield _Limit(f"summarizer_max_cost_per_{span}", spent.cost, dollars, said)
