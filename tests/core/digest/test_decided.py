"""What was said and then turned down, refused, only recommended or quoted was not decided."""

from __future__ import annotations

import pytest

from tests.core.digest.drafting import REFUSED, Json, drafted, texts
from tests.core.saying import assistant, calls, results, user

CHOICE = "I'll use a SQLite database for the store."
OBJECTION = "The store has to run without a database."


@pytest.mark.parametrize(
    "answer",
    [
        [user("No, the store stays in one JSON file.")],
        [user("NO!")],
        [user(OBJECTION), assistant("You're absolutely right! I see.")],
        [user("That needs a server."), assistant("Good point. The store needs no database.")],
        [user(OBJECTION), assistant("Du hast völlig recht! Ich sehe es.")],
        [user(OBJECTION), assistant("Vous avez raison ! Je vois.")],
        [user(OBJECTION), assistant("¡Tienes razón! Lo veo muy bien.")],
    ],
)
def test_what_the_user_objects_to_was_not_decided(answer: list[Json]) -> None:
    asked = [user("Build the store."), assistant(CHOICE)]
    assert CHOICE in texts(drafted([*asked, user("Is the table indexed?")]), "DECISIONS")
    assert CHOICE not in texts(drafted([*asked, *answer]), "DECISIONS")
    assert CHOICE not in texts(drafted(asked, answer), "DECISIONS")


@pytest.mark.parametrize(
    "answer",
    [
        [user("Wait, also add an index on the date column.")],
        [user("Good. Stop the old server when you are done.")],
        [user("Why did you add a second file?")],
        [user("The readme has a typo in line three."), assistant("Good catch, I fixed the typo.")],
    ],
)
def test_what_is_said_to_something_else_turns_no_decision_down(answer: list[Json]) -> None:
    span = [user("Build the store."), assistant(CHOICE), *answer]
    assert CHOICE in texts(drafted(span), "DECISIONS")


@pytest.mark.parametrize("answer", ["No.", "No, it is not needed.", "Nah"])
def test_a_no_to_a_question_answers_only_the_question(answer: str) -> None:
    asked = assistant(f"{CHOICE} Should I also add a cache?")
    draft = drafted([user("Build the store."), asked, user(answer)])
    assert texts(draft, "DECISIONS") == [CHOICE]


@pytest.mark.parametrize(
    "said",
    [
        "Wait, also add an index on the date column.",
        "Good. Stop the old server when you are done.",
    ],
)
def test_an_order_that_begins_with_wait_or_stop_rejects_nothing(said: str) -> None:
    draft = drafted([user("Build the store."), assistant(CHOICE), user(said)])
    assert texts(draft, "REJECTED") == []


@pytest.mark.parametrize(
    ("result", "is_decided"),
    [
        ("created", True),
        (REFUSED, False),
        ("The last command <command>x</command> timed out and has been killed.", True),
    ],
)
def test_what_was_refused_was_not_decided(result: str, is_decided: bool) -> None:
    step = calls(("1", "Bash", {"command": "sqlite3 a.db"}), text=f"{CHOICE} I create it.")
    draft = drafted([user("Build the store."), step, results(("1", result))])
    assert (CHOICE in texts(draft, "DECISIONS")) == is_decided


def test_what_is_only_recommended_is_decided_when_the_user_accepts_it() -> None:
    said = "Recommended approach: use an environment variable, keeping the test setup simple."
    for answer, decided in (("Yes, do that.", [said]), ("What else is there to do?", [])):
        draft = drafted([user("Look at it."), assistant(said), user(answer)])
        assert texts(draft, "DECISIONS") == decided


@pytest.mark.parametrize(
    "said",
    [
        "OK, back to the original. I try it anew.",
        "Back to 100% coverage.",
        "Let's start with the first step - the format.",
        "He wrote this:\n> It is too slow. Let's use Postgres rather than SQLite.",
    ],
)
def test_what_only_goes_on_or_is_quoted_decides_nothing(said: str) -> None:
    assert texts(drafted([user("Look at it."), assistant(said)]), "DECISIONS") == []
