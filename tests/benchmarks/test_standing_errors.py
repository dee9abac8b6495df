"""The benchmark of errors that stand knows them by a command's last run."""

from __future__ import annotations

from benchmarks.standing_errors import standing_errors
from tests.core.saying import Json, ran, user

FAILED = "FAILED tests/test_feed.py::test_empty - KeyError: rows"


def errors_of(*runs: tuple[str, str]) -> list[str]:
    steps: list[Json] = [m for n, (run, said) in enumerate(runs) for m in ran(f"t{n}", run, said)]
    return standing_errors([user("Mend the feed."), *steps])


def test_an_error_of_the_last_run_stands_wherever_the_command_was_started() -> None:
    assert errors_of(("cd app && pytest -q tests", FAILED), ("ls", "feed.py")) == [FAILED]


def test_an_error_is_gone_where_the_same_command_ran_without_one_since() -> None:
    assert errors_of(("pytest -q tests", FAILED), ("cd app; pytest -q tests", "3 passed")) == []
