"""The room below a target: the newest and the last commands first, words that only steer last."""

from __future__ import annotations

from tests.core.excerpts.showing import WORK, block
from tests.core.saying import assistant, ran

TURNS = [
    f"Look at the {what} of the parcel."
    for what in ("weight", "height", "stamp", "color", "string", "label", "corner", "paper")
]


def test_of_pieces_alike_the_newest_are_chosen_where_there_is_work() -> None:
    work = [step for text in TURNS for step in (assistant(text), *WORK)]
    shown = block(work, 60)
    assert "paper" in shown
    assert "weight" not in shown


def test_of_older_commands_one_that_was_run_again_comes_before_a_newer_one() -> None:
    old = ["tox run --quick", "tox run --quick", "nox test --brief"]
    last = [f"ls part{letter}" for letter in "abcdefghijklmnopqrst"]
    session = [step for n, line in enumerate([*old, *last]) for step in ran(f"{n}", line, "done")]
    shown = block(session, 100)
    assert "tox run --quick" in shown
    assert "nox test --brief" not in shown
