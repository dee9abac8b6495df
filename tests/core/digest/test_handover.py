"""A digest is a handover: how things stand, what was done and learned, what is known."""

from __future__ import annotations

import pytest

from mcp_compaction.core.digest.extract import extract
from mcp_compaction.core.log.jobs import running_jobs
from mcp_compaction.model import SummaryRequest
from tests.core.digest.drafting import drafted, texts
from tests.core.saying import ran, used, user
from tests.sessions import messages_of

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
        "tests: 1 failed, 40 passed (FAILED t.py::test_a - KeyError), at pytest -q; "
        "changed since: src/a.py"
    )
    assert "41 passed" not in str(draft.items("STATE"))


def test_of_a_failed_run_what_failed_is_said_once_with_what_was_asserted_first() -> None:
    alone = "FAIL\texample.com/cli/point [build failed]\nFAIL"
    assert texts(drafted(ran("1", "go test ./point", alone)), "STATE") == [
        "tests: FAIL example.com/cli/point [build failed], at go test ./point"
    ]
    said = (
        "--- FAIL: TestShare (0.00s)\n    share_test.go:760: share = 33.3, want 42.9\nFAIL\n"
        "FAIL\texample.com/cli\t3.2s"
    )
    assert texts(drafted(ran("1", "go test ./...", said)), "STATE") == [
        "tests: FAIL example.com/cli 3.2s (--- FAIL: TestShare; share_test.go:760: share = "
        "33.3, want 42.9), at go test ./..."
    ]


def test_a_red_run_is_no_state_once_a_wider_one_passed() -> None:
    red = ran("1", "go test ./cli -run TestX", "FAIL\texample.com/cli [build failed]")
    wider = ran("2", "mise run test", "ok  \texample.com/cli\t0.5s")
    assert [line[:11] for line in texts(drafted(red), "STATE")] == ["tests: FAIL"]
    (told,) = texts(drafted([*red, *wider]), "STATE")
    assert told.startswith("tests: ok example.com/cli")


def test_a_log_that_was_read_is_no_run_of_tests() -> None:
    log = ran("1", "gh run view 7 --log-failed", "FAILED t.py::test_a - x\n1 failed in 2s")
    assert drafted(log).items("STATE") == ()


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


def test_what_still_runs_in_the_background_is_told() -> None:
    started = ran("1", "pnpm web dev", "Command running in background with ID: bf7a97f. Output is")
    draft = drafted(started, running=running_jobs(messages_of(started)))
    assert texts(draft, "STATE") == ["started in the background (bf7a97f): pnpm web dev"]
    assert drafted(started).items("STATE") == ()


def test_all_files_changed_since_the_last_run_are_named_or_told_to_be_more() -> None:
    edits = [m for n in "abcd" for m in used(n, "Edit", "ok", file_path=f"src/{n}.py")]
    two = drafted([*ran("1", "pytest", "5 passed"), *edits[:4]])
    assert texts(two, "STATE") == ["tests: 5 passed, at pytest; changed since: src/b.py, src/a.py"]
    four = drafted([*ran("1", "pytest", "5 passed"), *edits])
    assert texts(four, "STATE")[0].endswith("changed since: src/d.py, src/c.py, src/b.py …")


def test_a_run_before_the_span_is_the_state_while_the_window_holds_it() -> None:
    earlier = messages_of(ran("1", "pytest", "5 passed"))
    span = messages_of([*used("2", "Edit", "ok", file_path="src/a.py"), user("Go on.")], 3)
    request = SummaryRequest(first=3, last=5, messages=span, earlier=earlier, max_tokens=600)
    assert texts(extract(request), "STATE") == [
        "tests: 5 passed, at pytest; changed since: src/a.py"
    ]


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


# What was learned


@pytest.mark.parametrize(
    "answer",
    [
        "Command `grep -n rate src` executed with exit code 1.",
        "grep: src/out.txt: input file is also the output\nexit code 2",
    ],
)
def test_a_search_that_did_run_is_no_failure_whatever_it_found(answer: str) -> None:
    assert texts(drafted(ran("1", "grep -n rate src", answer)), "ERRORS") == []
