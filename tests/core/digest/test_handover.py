"""A digest is a handover: how things stand, what was done and learned, what is known."""

from __future__ import annotations

import pytest

from tests.core.digest.drafting import drafted, texts
from tests.core.saying import ran, used

# How things stand


def test_the_last_test_run_is_the_state_and_what_was_changed_since_is_said() -> None:
    draft = drafted(
        [
            *ran("1", "pytest -q", "41 passed in 3.1s"),
            *ran("2", "cd /x && pytest -q", "FAILED t.py::test_a - KeyError\n1 failed, 40 passed"),
            *used("3", "Edit", "ok", file_path="src/a.py"),
        ]
    )
    assert texts(draft, "STATE")[0] == (
        "tests: 1 failed, 40 passed (FAILED t.py::test_a - KeyError), at cd /x && pytest -q; "
        "changed since: src/a.py"
    )
    assert "41 passed" not in str(draft.items("STATE"))


@pytest.mark.parametrize(
    "line", ["source venv/bin/activate && pytest", "cd /w && mise run test 2>&1 | tail -5"]
)
def test_a_test_command_is_told_as_it_was_run(line: str) -> None:
    draft = drafted(ran("1", line, "41 passed in 3.1s"))
    assert texts(draft, "STATE") == [f"tests: 41 passed in 3.1s, at {line}"]


def test_a_red_run_is_no_state_once_a_wider_one_passed() -> None:
    red = ran("1", "go test ./cli -run TestX", "FAIL\texample.com/cli [build failed]")
    wider = ran("2", "mise run test", "ok  \texample.com/cli\t0.5s")
    assert [line[:11] for line in texts(drafted(red), "STATE")] == ["tests: FAIL"]
    (told,) = texts(drafted([*red, *wider]), "STATE")
    assert told.startswith("tests: ok example.com/cli")


def test_the_state_says_where_the_last_commit_went() -> None:
    steps = [
        *ran("1", "git commit -am 'Add app'", "[astral ad4e24e] Add app\n 1 file changed"),
        *ran("2", "git checkout main", "Switched to branch 'main'"),
        *ran("3", "git merge astral", "Fast-forward"),
        *ran("4", "git push origin main", "To x\n   9c36529..ad4e24e  main -> main"),
    ]
    assert texts(drafted(steps[:2]), "STATE") == ["last commit: ad4e24e Add app, on astral"]
    assert texts(drafted(steps), "STATE") == [
        "last commit: ad4e24e Add app, on astral",
        "branch: main",
        "pushed to: origin/main",
        "merged into: main",
    ]


def test_all_files_changed_since_the_last_run_are_named_or_told_to_be_more() -> None:
    edits = [m for n in "abcd" for m in used(n, "Edit", "ok", file_path=f"src/{n}.py")]
    two = drafted([*ran("1", "pytest", "5 passed"), *edits[:4]])
    assert texts(two, "STATE") == ["tests: 5 passed, at pytest; changed since: src/b.py, src/a.py"]
    four = drafted([*ran("1", "pytest", "5 passed"), *edits])
    assert texts(four, "STATE")[0].endswith("changed since: src/d.py, src/c.py, src/b.py …")


# What was done


def test_files_stand_as_they_were_last_left_also_by_what_stays_in_the_window() -> None:
    span = [
        *used("1", "Write", "ok", file_path="src/a.py"),
        *used("2", "Edit", "ok", file_path="src/b.py"),
        *ran("3", "git rm src/b.py", "rm 'src/b.py'"),
    ]
    assert texts(drafted(span), "DONE") == ["src/b.py deleted", "src/a.py written"]
    gone = ran("4", "rm src/a.py", "")
    assert texts(drafted(span, gone), "DONE") == ["src/a.py deleted", "src/b.py deleted"]
    stashed = ran("4", "git stash", "Saved")
    assert texts(
        drafted(span[:4], [*stashed, *used("5", "Write", "ok", file_path="c")]), "DONE"
    ) == ["c written"]


def test_a_task_that_is_done_names_the_call_that_closed_it() -> None:
    made = used("1", "TaskCreate", "Task #1 created", subject="parse")
    closed = used("2", "TaskUpdate", "ok", taskId="1", status="completed")
    (item,) = drafted([*made, *closed]).items("DONE")
    assert item.refs == ("m1", "m3")
