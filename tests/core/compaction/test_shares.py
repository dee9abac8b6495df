"""How a goal is shared out between the index and the names beside it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mcp_compaction.core.compaction.shares import room_beside_names, room_for_names

INDEX = 2_000


def test_names_take_the_room_of_an_index_that_would_hold_its_label_and_little_more() -> None:
    assert room_for_names(500, INDEX) == 100
    assert room_for_names(2_000, INDEX) == 300


@given(st.integers(5, 100_000))  # a fifth of less is no whole token
def test_names_that_fill_their_room_leave_the_index_what_a_fifth_leaves(goal: int) -> None:
    names = room_for_names(goal, 100_000)
    assert names + room_beside_names(goal, names) <= max(goal * 20 // 100, names)
