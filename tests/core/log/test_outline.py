"""The outline of a session, and what makes a moment a good one."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_compaction.core.log.outline import find_boundary_cues
from tests.core.saying import assistant, call, failed, planned, ran, results, used, user
from tests.sessions import messages_of

Json = dict[str, Any]


@pytest.mark.parametrize(
    ("session", "cues"),
    [
        (ran("1", "pytest", "5 passed in 1s"), ["tests green"]),
        (ran("1", "python -m unittest", "Ran 4 tests in 0.002s\n\nOK"), ["tests green"]),
        (ran("1", "phpunit", "OK (5 tests, 9 assertions)"), ["tests green"]),
        (ran("1", "go test ./...", "ok  \texample.com/shop\t0.012s"), ["tests green"]),
        # Without a test none is green.
        (ran("1", "curl -s localhost/health", "OK"), []),
        (ran("1", "curl -si localhost/health", "HTTP/1.1 200 OK\nserver: x"), []),
        (ran("1", "pytest -k none", "0 passed, 12 deselected"), []),
        (ran("1", "pytest", "1 failed, 4 passed"), []),
        (ran("1", "git -C . commit -m x", "[main 1f2ab90] x"), ["commit made"]),
        (ran("1", "git commit", "nothing to commit\nexit code 1"), []),
        ([call("1", "Bash", command="git commit"), failed("1", "no")], []),
        (planned("1", ("a", "completed"), ("b", "completed")), ["todo closed"]),
        (planned("1", ("a", "completed"), ("b", "cancelled")), ["todo closed"]),
        (planned("1", ("a", "completed"), ("b", "pending")), []),
        (planned("1"), []),
        (used("1", "Read", "5 passed"), []),
        ([results(("ghost", "5 passed"))], []),
        ([*ran("1", "pytest", "5 passed"), user("a"), user("b"), user("c")], []),
        ([*ran("1", "pytest", "5 passed"), call("2", "Bash", command="git push")], []),
        ([*ran("1", "pytest", "5 passed"), *ran("2", "make", "exit code 2")], []),
        ([*ran("1", "make", "exit code 2"), *ran("2", "pytest", "5 passed")], ["tests green"]),
        ([*ran("1", "pytest", "5 passed"), assistant("Wait, I was wrong.")], []),
        ([*ran("1", "pytest", "5 passed"), assistant("Done, please check it.")], ["tests green"]),
        ([*ran("1", "pytest", "5 passed"), user("Wait.")], ["tests green"]),
        ([], []),
    ],
)
def test_the_last_steps_give_the_cues(session: list[Json], cues: list[str]) -> None:
    assert list(find_boundary_cues(messages_of(session))) == cues
