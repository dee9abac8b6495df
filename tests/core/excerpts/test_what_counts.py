"""The room below a target: the newest first."""

from __future__ import annotations

from tests.core.excerpts.showing import WORK, block
from tests.core.saying import assistant

TURNS = [
    f"Look at the {what} of the parcel."
    for what in ("weight", "height", "stamp", "color", "string", "label", "corner", "paper")
]


def test_of_pieces_alike_the_newest_are_chosen_where_there_is_work() -> None:
    work = [step for text in TURNS for step in (assistant(text), *WORK)]
    shown = block(work, 60)
    assert "paper" in shown
    assert "weight" not in shown
