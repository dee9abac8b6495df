"""How a target is shared out."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mcp_compaction.core.compaction.budget import index_beside_names, names_limit
from mcp_compaction.core.policy import Policy

POLICY = Policy(index_max_tokens=2_000)


def test_names_take_the_room_of_an_index_that_would_hold_its_label_and_little_more() -> None:
    assert names_limit(500, POLICY) == 125
    assert names_limit(2_000, POLICY) == 400


@given(st.integers(4, 100_000))  # a quarter of less is no whole token
def test_names_that_fill_their_room_leave_the_index_what_a_quarter_leaves(goal: int) -> None:
    names = names_limit(goal, Policy(index_max_tokens=100_000))
    assert names + index_beside_names(goal, names) <= max(goal * 25 // 100, names)
