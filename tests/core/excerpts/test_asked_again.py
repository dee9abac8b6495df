"""The room below a target: messages that were asked for again come first, whole or not at all."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mcp_compaction.core.excerpts.render import excerpts_block, keep_whole
from mcp_compaction.core.tokens import estimate
from mcp_compaction.model import Excerpt
from tests.core.excerpts.showing import AGAIN, COUNTS

OTHER = Excerpt(seq=3, by="said", pieces=("The gateway drops idle connections.",))


@given(st.integers(-5, 400), st.sampled_from(sorted(COUNTS)))
def test_a_message_asked_for_again_comes_first_and_whole_or_not_at_all(
    room: int, counter: str
) -> None:
    count = COUNTS[counter]
    kept, cost = keep_whole((OTHER, AGAIN), (), room, count)
    shown = excerpts_block(kept)
    assert cost == count(shown) <= max(0, room)
    if room >= count(excerpts_block([AGAIN])):
        assert "\nm1 tool\n| gone at 10:42\n| and back" in shown
    else:
        assert "10:42" not in shown


def test_messages_recalled_again_and_again_take_a_third_of_the_room_at_most_and_kept_ones_all() -> (
    None
):
    long = "\n".join(f"line {number} of the report on the burst" for number in range(12))
    kept = [AGAIN.model_copy(update={"seq": seq, "pieces": (long,)}) for seq in (1, 2, 3)]
    room = estimate(excerpts_block(kept)) + 20
    assert keep_whole(kept, (), room, estimate)[0] == tuple(kept)

    def recalled(room: int) -> list[int]:
        chosen, _ = keep_whole((), kept[::-1], room, estimate)
        return [one.seq for one in chosen]

    assert recalled(room) == []
    assert recalled(2 * room) == [2, 3]
    assert recalled(4 * room) == [1, 2, 3]
