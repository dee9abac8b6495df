"""A digest is a handover: how things stand, what was done and learned, what is known."""

from __future__ import annotations

import pytest

from tests.core.digest.drafting import drafted, texts
from tests.core.saying import call, failed, ran, used, user

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
    other = used("3", "TaskCreate", "Task #2 created", subject="print")
    (item,) = drafted([*made, *closed, *other]).items("DONE")
    assert item.refs == ("m1", "m3")
    # Of a list that is done nothing is left to tell apart.
    assert not drafted([*made, *closed]).items("DONE")


# What is past


def test_a_failure_is_told_in_the_turn_it_happened_in_and_not_for_ever() -> None:
    broken = [call("1", "Bash", command="make web"), failed("1", "make: no rule for web")]
    asked = [user("Leave that. Write the notes.")]
    looks = [step for n in range(2, 12) for step in ran(str(n), f"make part{n}", "ok")]
    assert drafted([user("Build it."), *broken]).items("ERRORS")
    assert not drafted([user("Build it."), *broken], asked).items("ERRORS")
    assert not drafted([user("Build it."), *broken, *looks]).items("ERRORS")


def test_a_file_is_created_until_it_is_committed_and_edited_after_that() -> None:
    made = used("1", "Write", "File created successfully at: a.py", file_path="a.py", content="x")
    changed = used("3", "Edit", "ok", file_path="a.py", old_string="x", new_string="y")
    committed = ran("2", "git commit -m one", "[main 1f2ab90] one\n 1 file changed")
    assert texts(drafted([*made, *changed]), "DONE") == ["a.py created"]
    assert "a.py edited" in texts(drafted([*made, *committed, *changed]), "DONE")


def test_another_run_that_tells_nothing_leaves_the_last_result_of_tests() -> None:
    tests = ran("1", "mise run test", "41 passed in 3.1s")
    draft = drafted([*tests, *ran("2", "mise run lint", "")])
    assert texts(draft, "STATE") == ["tests: 41 passed in 3.1s, at mise run test"]
