"""What failed is told as it was run, and what never ran is no failure of its work."""

from __future__ import annotations

from tests.core.digest.drafting import drafted, texts
from tests.core.saying import ran

NOT_FOUND = "Error: (eval):1: command not found: lint"


def test_a_test_run_is_told_with_what_it_needed_to_run() -> None:
    draft = drafted(ran("1", "source venv/bin/activate && cd /app && pytest", "4 passed"))
    assert texts(draft, "STATE") == ["tests: 4 passed, at source venv/bin/activate && pytest"]


def test_what_prepares_a_long_command_is_left_out() -> None:
    tests = " ".join(f"tests/test_{n}.py" for n in range(5))
    draft = drafted(ran("1", f"source venv/bin/activate && pytest {tests}", "4 passed"))
    assert texts(draft, "STATE") == [f"tests: 4 passed, at pytest {tests}"]


def test_a_program_that_was_not_found_has_not_failed_at_its_work() -> None:
    steps = [*ran("1", "lint .", NOT_FOUND), *ran("2", "source env && lint .", "exit code 1")]
    assert texts(drafted(steps), "LEARNED") == ["failed: source env && lint ."]
    steps += ran("3", "source env && lint .", "exit code 1")
    assert texts(drafted(steps), "LEARNED") == ["still failing 2 times: source env && lint ."]


def test_a_command_that_passed_once_it_was_prepared_is_told_so() -> None:
    steps = [*ran("1", "lint .", NOT_FOUND), *ran("2", "source env && lint .", "fine")]
    assert texts(drafted(steps), "LEARNED") == [
        "lint .: failed m1 (Error: (eval):1: command not found: lint); "
        "source env && lint . passed m3"
    ]


def test_one_search_tells_nothing_of_another() -> None:
    missing = "grep: src/rates: No such file or directory\nexit code 2"
    draft = drafted([*ran("1", "grep -n a src/rates", missing), *ran("2", "grep -n b src", "b")])
    assert texts(draft, "LEARNED") == [
        "failed: grep -n a src/rates: grep: src/rates: No such file or directory"
    ]
    assert texts(draft, "NEXT") == []
