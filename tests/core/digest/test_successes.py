"""A success that a line claims was shown by a result or stated; else nobody reached it."""

from __future__ import annotations

import pytest

from mcp_compaction.core.digest.check.successes import Successes
from mcp_compaction.model import Item, SectionName
from tests.core.saying import Json, assistant, ran, user
from tests.sessions import messages_of

GREEN = ran("1", "pytest -q", "12 passed in 3.1s")
RED = ran("2", "pytest -q", "1 failed, 11 passed in 3.2s")


def holds(said: list[Json], line: str, section: SectionName = "DONE", *refs: str) -> bool:
    return Successes(messages_of(said)).hold(section, Item(text=line, refs=refs))


@pytest.mark.parametrize(
    "said",
    [
        GREEN,
        [*RED, *GREEN],
        ran("1", "python check_all.py", "test one: ok\ntest two: ok"),
        [*RED, assistant("I mended the parser. All tests pass now.")],
        [user("Thanks, the tests are green here.")],
    ],
)
def test_tests_that_a_result_or_somebody_says_have_passed_may_be_told_of(said: list[Json]) -> None:
    assert holds(said, "All tests pass.")
    assert holds(said, "The test suite went through without a failure.")


@pytest.mark.parametrize(
    "said",
    [
        RED,
        [*GREEN, *RED],
        ran("1", "cat tests/test_api.py", "def test_one(): ..."),
        [user("Make the tests pass."), assistant("I will see that all tests pass.")],
        [],
    ],
)
def test_tests_that_nobody_saw_pass_or_that_failed_since_have_not(said: list[Json]) -> None:
    assert not holds(said, "All tests pass.")


def test_a_line_may_tell_of_a_run_that_it_names_though_a_later_one_failed() -> None:
    assert holds([*GREEN, *RED], "All tests passed after the fix.", "DONE", "m2")
    assert not holds([*GREEN, *RED], "All tests passed after the fix.", "DONE", "m9")


def test_other_work_succeeds_where_a_call_did_it_or_somebody_says_so() -> None:
    line = "The deployment succeeded."
    assert holds(ran("1", "./deploy.sh staging", "done"), line)
    assert holds([assistant("The deployment was successful.")], line)
    assert not holds(ran("1", "./deploy.sh staging", "no such host\nexit code 1"), line)
    assert not holds([user("Deploy it tonight."), *GREEN], line)


@pytest.mark.parametrize(
    "line",
    [
        "Not all tests pass.",
        "Once the build is green, merge.",
        "The tests were written.",
        "4 files",
    ],
)
def test_what_claims_no_success_needs_none(line: str) -> None:
    assert holds(RED, line)


@pytest.mark.parametrize(
    "line",
    [
        "Alle Tests laufen wieder durch, und der Fehler ist behoben.",
        "Tous les tests passent.",
        "Todas las pruebas pasan.",
        "Tutti i test passano.",
        "所有测试都通过了。",
    ],
)
def test_a_claim_in_another_language_is_held_to_the_same(line: str) -> None:
    assert holds(GREEN, line)
    assert not holds(RED, line)


def test_other_work_succeeds_in_other_languages_too() -> None:
    shown = ran("1", "./deploiement.sh", "fini")
    assert holds(shown, "Le déploiement a réussi.")
    assert not holds(GREEN, "Le déploiement a réussi.")
    assert not holds(GREEN, "Die Auslieferung war erfolgreich.")
    assert not holds(GREEN, "El despliegue fue un éxito.")


@pytest.mark.parametrize(
    "line",
    [
        "The fallback was successful.",
        "The correction was successful.",
        "The termination succeeded.",
        "The failover was successful.",
        "The workflow was successful.",
        "The password was successfully deployed.",
        "Die Fehlersuche war erfolgreich.",
    ],
)
def test_a_subject_that_begins_like_a_word_of_success_is_still_a_subject(line: str) -> None:
    assert not holds(ran("1", "ls src", "a.py"), line)
    assert holds([assistant(line)], line)


def test_what_is_still_to_be_reached_is_no_claim() -> None:
    assert holds(RED, "All tests pass.", "GOAL")
    assert holds(RED, "All tests pass.", "NEXT")


def test_what_is_known_of_earlier_messages_counts() -> None:
    known = Successes(messages_of([]), ["All tests pass (m4)."])
    assert known.hold("STATE", Item(text="The tests are green."))
