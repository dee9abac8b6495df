"""What was said and then turned down, refused, only recommended or quoted was not decided."""

from __future__ import annotations

import pytest

from tests.core.digest.drafting import REFUSED, Json, drafted, texts
from tests.core.saying import assistant, calls, results, user

CHOICE = "I'll use a SQLite database for the store."


@pytest.mark.parametrize(
    "answer",
    [
        [user("No, the store stays in one JSON file.")],
        [user("NO!")],
        [user("It has to run without a server."), assistant("You're absolutely right! I see.")],
        [user("Es muss ohne Server laufen."), assistant("Du hast völlig recht! Ich sehe es.")],
        [user("Il doit tourner sans serveur."), assistant("Vous avez raison ! Je vois.")],
        [user("Debe funcionar sin servidor."), assistant("¡Tienes razón! Lo veo muy bien.")],
    ],
)
def test_what_the_user_objects_to_was_not_decided(answer: list[Json]) -> None:
    asked = [user("Build the store."), assistant(CHOICE)]
    assert CHOICE in texts(drafted([*asked, user("Is the table indexed?")]), "DECISIONS")
    assert CHOICE not in texts(drafted([*asked, *answer]), "DECISIONS")
    assert CHOICE not in texts(drafted(asked, answer), "DECISIONS")


@pytest.mark.parametrize(
    ("result", "is_decided"),
    [
        ("created", True),
        (REFUSED, False),
        ("The last command <command>x</command> timed out and has been killed.", False),
    ],
)
def test_what_was_refused_or_ran_out_of_time_was_not_decided(result: str, is_decided: bool) -> None:
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
