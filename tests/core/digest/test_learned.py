"""What failed is told as it was run, and what never ran is no failure of its work."""

from __future__ import annotations

import pytest

from tests.core.digest.drafting import drafted, texts
from tests.core.saying import call, failed, ran, used, user

NO_RG = "Error: sh: 1: rg: not found"
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
    draft = drafted([*ran("1", "rg a src", NO_RG), *ran("2", "rg b src", "b")])
    assert texts(draft, "LEARNED") == [f"failed: rg a src: {NO_RG}"]
    assert texts(draft, "NEXT") == []


HOOK = "ruff....Failed\n- exit code: 1\n\na.py:17: error: line too long"
HOOK_SAYS = "a.py:17: error: line too long"


def test_a_failed_commit_is_settled_by_any_later_one() -> None:
    steps = [
        *ran("1", "git add a.py && git commit -m 'fix: read rates", HOOK),
        *ran("2", "git add a.py && git commit -m 'fix: read rates", HOOK),
    ]
    failing = f"still failing 2 times: git add a.py && git commit -m 'fix: read rates: {HOOK_SAYS}"
    assert texts(drafted(steps), "LEARNED") == [failing]
    steps += ran("3", "git commit -am 'refactor: read the rates once", "[main 4f2a91c] refactor")
    assert texts(drafted(steps), "LEARNED") == [
        f"git add a.py && git commit -m 'fix: read rates: failed m3, 2 times ({HOOK_SAYS}), "
        "passed m5; between: with -am"
    ]
    assert texts(drafted(steps), "NEXT") == []


def test_a_commit_settles_a_failed_one_though_the_rest_of_its_call_failed() -> None:
    failed = ran("1", "git commit -am 'fix'", HOOK)
    made = ran("2", "git commit -am 'fix' && pytest -q", "[main 4f2a91c] fix\n3 failed in 1s")
    assert texts(drafted([*failed, *made]), "LEARNED") == [
        "still failing: git commit -am 'fix' && pytest -q",
        f"git commit -am 'fix': failed m1 ({HOOK_SAYS}), passed m3",
    ]


def test_a_commit_that_git_confirmed_has_not_failed_by_what_a_hook_counts() -> None:
    draft = drafted(ran("1", "git commit -am 'fix'", "2 failed in 1s\n[main 4f2a91c] fix"))
    assert texts(draft, "LEARNED") == []


PASSED, RED = "test result: ok. 3 passed; 0 failed", "test result: FAILED. 1 passed; 2 failed"


def test_what_passes_in_one_folder_settles_nothing_in_another() -> None:
    steps = [
        *ran("1", "cd /work/api && cargo test", f"{RED}\nexit code 101"),
        *ran("2", "cd /work/site && cargo test", PASSED),
    ]
    draft = drafted(steps)
    assert texts(draft, "LEARNED") == [f"still failing: cargo test in /work/api: {RED}"]
    assert [text.partition(" at ")[2] for text in texts(draft, "STATE")] == [
        "cargo test in /work/site",
        "cargo test in /work/api",
    ]
    steps += ran("3", "cd /work && git status", "clean")  # above both, and of no other run
    steps += ran("4", "cd /work/api && cargo test", PASSED)
    assert texts(drafted(steps), "LEARNED") == [
        f"cargo test in /work/api: failed m1 ({RED}), passed m7; between: ran git status"
    ]


def test_a_run_that_does_not_say_where_it_runs_may_have_run_anywhere() -> None:
    looked = [*ran("1", "cd /tmp/x && ls", "a"), *ran("2", "cd /tmp/y && ls", "b")]
    red, green = ran("3", "cargo test", f"{RED}\nexit code 101"), ran("4", "cargo test", PASSED)
    for passed in (green, ran("5", "cd /work/api && cargo test", PASSED)):
        draft = drafted([*red, *looked, *passed])
        assert texts(draft, "LEARNED")[0].startswith(f"cargo test: failed m1 ({RED}), passed m7")
        assert len([text for text in texts(draft, "STATE") if text.startswith("tests:")]) == 1


def test_a_folder_and_one_in_it_are_one_place_that_needs_no_name() -> None:
    steps = [
        *ran("1", "cd /work/api && cargo test", f"{RED}\nexit code 101"),
        *ran("2", "cd /work/api/core && cargo test", PASSED),
        *ran("3", "cd $OTHER && cargo test", PASSED),
    ]
    assert texts(drafted(steps), "LEARNED") == [f"cargo test: failed m1 ({RED}), passed m3"]


def test_a_change_in_one_folder_is_not_told_beside_the_tests_of_another() -> None:
    steps = [
        *ran("1", "cd /work/api && cargo test", PASSED),
        *ran("2", "cd /work/site && cargo test", PASSED),
        *ran("3", "touch /work/site/new.rs", ""),
    ]
    assert texts(drafted(steps), "STATE")[:2] == [
        "tests: 3 passed; 0 failed, at cargo test in /work/site; changed since: new.rs",
        "tests: 3 passed; 0 failed, at cargo test in /work/api",
    ]


def test_a_command_is_told_by_the_call_and_by_what_it_said() -> None:
    draft = drafted(ran("1", "python tools/build.py --all", "3 pages\nexit code 0"))
    (item,) = draft.items("DONE")
    assert (item.text, item.refs) == ("ran python tools/build.py --all: exit 0", ("m1", "m2"))


def test_a_line_may_name_a_late_message() -> None:
    early = [user(f"What of {number}?") for number in range(200)]
    steps = [*ran("1", "cargo test", f"{RED}\nexit code 101"), *ran("2", "cargo test", PASSED)]
    assert texts(drafted([*early, *steps]), "LEARNED") == [
        f"cargo test: failed m201 ({RED}), passed m203"
    ]


def test_runs_of_all_the_parts_end_the_failure_of_the_whole() -> None:
    killed = "The last command <command>pip install</command> timed out and has been killed."
    steps = ran("1", "pip install flask==3.0 torch", killed)
    steps += [*ran("2", "pip install flask", "ok"), *ran("3", "pip install torch==2.1", "ok")]
    assert texts(drafted(steps), "LEARNED") == [
        "pip install flask==3.0 torch: failed m1 (timed out); pip install torch==2.1 passed m5"
        "; between: ran pip install flask"
    ]


@pytest.mark.parametrize(
    ("broken", "others"),
    [
        ("gh pr merge --squash 12", ("gh pr view 12", "gh pr merge --squash 13")),
        ("git push origin main", ("git push origin dev", "git push mirror main")),
    ],
)
def test_runs_of_some_words_each_do_not_end_the_failure_of_what_they_say_together(
    broken: str, others: tuple[str, str]
) -> None:
    steps = ran("1", broken, "error: what?\nexit code 1")
    steps += [*ran("2", others[0], "ok"), *ran("3", others[1], "ok")]
    assert texts(drafted(steps), "LEARNED") == [f"failed: {broken}: error: what?"]


def test_a_part_that_fails_and_passes_leaves_the_failure_of_the_whole() -> None:
    wrong = "KeyError: 'x'\nexit code 1"
    steps = [*ran("1", "pytest", wrong), *ran("2", "pytest tests/a.py", wrong)]
    steps += ran("3", "pytest tests/a.py", "exit code 0")
    assert texts(drafted(steps), "LEARNED") == [
        "failed: pytest: KeyError: 'x'",
        "pytest tests/a.py: failed m3 (KeyError: 'x'), passed m5",
    ]


def test_a_failure_of_more_takes_the_place_of_the_one_before() -> None:
    wrong = "KeyError: 'x'\nexit code 1"
    steps = [*ran("1", "pytest tests/a.py", wrong), *ran("2", "pytest", wrong)]
    assert texts(drafted(steps), "LEARNED") == ["failed: pytest: KeyError: 'x'"]


NO_MATCH = "No replacement was performed, old_str did not appear verbatim in src/a.py."


def test_a_failed_edit_is_settled_by_any_later_change_of_the_file_and_by_no_look_at_it() -> None:
    editor = "str_replace_editor"
    edit = call("1", editor, command="str_replace", path="/app/src/a.py", old_str="x", new_str="y")
    steps = [edit, failed("1", NO_MATCH)]
    steps += used("2", editor, "x = 1", command="view", path="/app/src/a.py")
    assert texts(drafted(steps), "LEARNED") == [f"failed: {editor} /app/src/a.py: {NO_MATCH}"]
    steps += ran("3", "sed -i 's/x/y/' src/a.py", "")
    assert texts(drafted(steps), "LEARNED") == []


def test_a_failed_edit_is_not_settled_by_a_change_of_another_file_of_that_name() -> None:
    edit = call("1", "Edit", file_path="__init__.py", old_string="x", new_string="y")
    steps = [edit, failed("1", NO_MATCH)]
    steps += used("2", "Edit", "ok", file_path="/app/src/rates/__init__.py")
    assert texts(drafted(steps), "LEARNED") == [f"failed: Edit __init__.py: {NO_MATCH}"]


def test_a_find_that_failed_at_what_it_does_with_the_files_is_told() -> None:
    draft = drafted(ran("1", "find . -name '*.sql' -exec psql -f {} \\;", "error: no\nexit code 1"))
    assert texts(draft, "LEARNED") == [
        "failed: find . -name '*.sql' -exec psql -f {} \\;: error: no"
    ]


def test_failed_inline_code_is_told_last_and_is_nothing_to_do_once_another_run_was_done() -> None:
    wrong = "KeyError: 'x'\nexit code 1"
    steps = [*ran("1", "make all", wrong), *ran("2", "python3 - <<'EOF'\nload()\nEOF", wrong)]
    assert texts(drafted(steps), "NEXT") == ["failed: python3 - <<'EOF': KeyError: 'x'"]
    steps += ran("3", "python3 - <<'EOF'\nprint(1)\nEOF", "1")
    draft = drafted(steps)
    assert texts(draft, "NEXT") == ["failed: make all: KeyError: 'x'"]
    assert texts(draft, "LEARNED") == [
        "failed: make all: KeyError: 'x'",
        "failed: python3 - <<'EOF': KeyError: 'x'",
    ]


def test_what_timed_out_again_and_again_is_told_so() -> None:
    killed = "The last command <command>python train.py</command> timed out and has been killed."
    steps = [*ran("1", "python train.py", killed), *ran("2", "python train.py", killed)]
    assert texts(drafted(steps), "LEARNED") == ["timed out 2 times: python train.py"]
    steps += ran("3", "python train.py", "KeyError: 'x'\nexit code 1")
    assert texts(drafted(steps), "LEARNED") == ["failed: python train.py: KeyError: 'x'"]


def test_of_the_runs_between_those_are_told_that_the_cause_names() -> None:
    missing = "ModuleNotFoundError: No module named 'json5'\nexit code 1"
    steps = [*ran("1", "jupyter lab", missing), *ran("2", "pip install json5", "ok")]
    steps += [*ran("3", "pip install babel", "ok"), *ran("4", "jupyter lab", "ready")]
    assert texts(drafted(steps), "LEARNED") == [
        "jupyter lab: failed m1 (ModuleNotFoundError: No module named 'json5'), passed m7; "
        "between: ran pip install json5"
    ]


def test_a_run_of_tests_that_names_no_cause_is_told_by_how_it_sums_itself_up() -> None:
    steps = [
        *ran("1", "pytest", "collected 0 items\n\n== no tests ran in 0.01s ==\nexit code 5"),
        *used("2", "Edit", "ok", file_path="pytest.ini"),
        *ran("3", "pytest", "== 3 passed in 0.2s ==\nexit code 0"),
    ]
    assert texts(drafted(steps), "LEARNED") == [
        "pytest: failed m1 (exit 5, no tests ran in 0.01s), passed m5; between: edited pytest.ini"
    ]


@pytest.mark.parametrize(
    ("broken", "done"),
    [
        ("git push", "git push -u origin dev"),
        ("python3 cli.py", "python3 cli.py image.png"),
        ("./serve", "./serve local.toml"),
    ],
)
def test_a_run_that_names_nothing_and_checks_nothing_is_settled_by_any(
    broken: str, done: str
) -> None:
    steps = [*ran("1", broken, "error: what?\nexit code 1"), *ran("2", done, "exit code 0")]
    (told,) = texts(drafted(steps), "LEARNED")
    assert told.startswith(f"{broken}: failed m1 (error: what?); {done} passed m3")


@pytest.mark.parametrize(
    ("broken", "done"),
    [
        ("git push", "git push --dry-run"),
        ("pytest -q", "pytest -q -k 'a or b'"),
        ("python train.py", "python train.py --help"),
        ("npm install a b", "npm install --dry-run a"),
    ],
)
def test_a_run_that_does_less_settles_nothing(broken: str, done: str) -> None:
    steps = [*ran("1", broken, "error: what?\nexit code 1"), *ran("2", done, "exit code 0")]
    assert texts(drafted(steps), "LEARNED") == [f"failed: {broken}: error: what?"]
    steps += ran("3", broken, "exit code 0")
    (told,) = texts(drafted(steps), "LEARNED")
    assert told.startswith(f"{broken}: failed m1 (error: what?), passed m5")


def test_runs_of_two_parts_that_failed_are_both_settled_by_one_of_all() -> None:
    wrong = "KeyError: 'x'\nexit code 1"
    steps = [*ran("1", "pytest -k a", wrong), *ran("2", "pytest -k b", wrong)]
    assert len(texts(drafted(steps), "LEARNED")) == 2
    steps += ran("3", "pytest", "exit code 0")
    assert texts(drafted(steps), "LEARNED") == [
        "pytest -k b: failed m3 (KeyError: 'x'); pytest passed m5",
        "pytest -k a: failed m1 (KeyError: 'x'); pytest passed m5",
    ]


def test_a_check_that_was_not_found_is_settled_by_one_that_ran() -> None:
    steps = [*ran("1", "pytest", "Error: (eval):1: command not found: pytest")]
    steps += ran("2", "source env && pytest tests/a.py", "1 passed")
    (told,) = texts(drafted(steps), "LEARNED")
    assert told.endswith("source env && pytest tests/a.py passed m3")


def test_a_thing_that_passed_and_failed_again_has_not_passed() -> None:
    wrong = "error: no\nexit code 1"
    steps = [*ran("1", "npm install a b", wrong), *ran("2", "npm install a", "ok")]
    steps += [*ran("3", "npm install a", wrong), *ran("4", "npm install b", "ok")]
    assert texts(drafted(steps), "LEARNED") == [
        "failed: npm install a: error: no",
        "failed: npm install a b: error: no; passed since: b m7",
    ]
