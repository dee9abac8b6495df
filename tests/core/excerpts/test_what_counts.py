"""The room below a target: the newest and the last commands first, words that only steer last."""

from __future__ import annotations

from tests.core.excerpts.showing import WORK, block
from tests.core.saying import assistant, ran, user

TURNS = [
    f"Look at the {what} of the parcel."
    for what in ("weight", "height", "stamp", "color", "string", "label", "corner", "paper")
]


def test_where_there_is_little_room_users_words_that_only_steer_give_way() -> None:
    rule = "Send the parcel by ship, Anna is afraid of the customs in Lisbon."
    steering = ["ok, go on", "yes, do that", "fine by me", "right, next one", "so be it", "again"]
    session = [user(rule), *(step for text in steering for step in (*WORK, user(text)))]
    little = block(session, 70)
    assert rule in little
    assert not all(text in little for text in steering)
    assert all(text in block(session, 400) for text in steering)


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


def test_the_last_commands_stay_though_much_was_said_since() -> None:
    asked = "ask --file notes/day-12.md 'what became of the valve'"
    said = [assistant(f"The {n}th letter of Anna Kowalska names Lisbon {n}.") for n in range(40)]
    session = [user("Go through the days."), *ran("a", asked, "Waiting"), *said, *WORK[:1]]
    assert asked in block(session, 150)
