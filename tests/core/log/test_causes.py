"""What tools answered, reduced to why it failed and how it ended."""

from __future__ import annotations

import pytest

from mcp_compaction.core.log.endings import causes_of, ending_of, is_failure, is_run_of_tests
from mcp_compaction.model import ToolResult


def answer(text: str, is_error: bool = False) -> ToolResult:
    return ToolResult(call="a", text=text, is_error=is_error)


PYTHON = """Traceback (most recent call last):
  File "a.py", line 3, in <module>
    f()
KeyError: 'a'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "a.py", line 9, in <module>
    g()
app.errors.ConfigError: tenant_id is missing
"""
JAVA = """Exception in thread "main" java.lang.RuntimeException: boot
\tat a.B.c(B.java:3)
Caused by: java.io.IOException: disk
\tat x.Y.z(Y.java:9)
Caused by: java.nio.file.NoSuchFileException: /etc/app.yml
\t... 12 more"""


ONE = "Traceback (most recent call last):\n  File x\n"


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (PYTHON, "app.errors.ConfigError: tenant_id is missing"),
        (JAVA, "Caused by: java.nio.file.NoSuchFileException: /etc/app.yml"),
        (
            "/app.js:3\nTypeError: x is no function\n    at get (/a:3)",
            "TypeError: x is no function",
        ),
        (
            "thread 'main' panicked at a.rs:4:5:\nod 7\nnote",
            "thread 'main' panicked at a.rs:4:5:",
        ),
        ("panic: runtime error: bad\n\ngoroutine 1 [running]:", "panic: runtime error: bad"),
        ("error[E0382]: borrow\n --> a.rs\nerror: could not compile `f`", "error[E0382]: borrow"),
        ("a.ts(3,5): error TS2322: bad", "a.ts(3,5): error TS2322: bad"),
        (f"{ONE}?? odd\nKeyError: 'x'", "KeyError: 'x'"),
        (f"{ONE}OSError: y", "OSError: y"),
        (f"{ONE}\n  cut off", ""),
        ("collecting\nE       AssertionError: assert 3 == 4", "AssertionError: assert 3 == 4"),
        ("bash: make: command not found\nexit code 127", "bash: make: command not found"),
        ("# x.com/cli\na.go:3:22: undefined: get\nexit code 1", "a.go:3:22: undefined: get"),
        ("3 failed\nexit code 1", ""),
        ("exit code 1", ""),
        ("    except KeyError: pass\n    raise ValueError: bad", ""),
        ("all is well", ""),
    ],
)
def test_an_answer_is_reduced_to_its_cause(text: str, cause: str) -> None:
    assert causes_of(answer(text)) == ((cause,) if cause else ())


@pytest.mark.parametrize(
    ("text", "how", "failed"),
    [
        ("== 3 failed, 12 passed in 1s ==\nexit code 1", "exit 1, 3 failed, 12 passed in 1s", True),
        ("BUILD FAILED in 3s", "BUILD FAILED in 3s", True),
        ("BUILD SUCCESSFUL in 3s", "BUILD SUCCESSFUL in 3s", False),
        ("make: *** [all] Error 2\nexit code 2", "exit 2, make: *** [all] Error 2", True),
        ("error: could not compile `foo`", "error: could not compile `foo`", True),
        ("10 examples, 2 failures", "10 examples, 2 failures", True),
        ("Success: no issues found in 3 files", "Success: no issues found in 3 files", False),
        (
            "-rw-r--r-- 1 root adm 0 Aug 12 error.log\n-rw-r--r-- 1 root adm 0 Aug 3 failed.txt",
            "",
            False,
        ),
        ("hello", "", False),
    ],
)
def test_a_run_is_summed_up_by_its_own_last_line(text: str, how: str, failed: bool) -> None:
    assert ending_of(answer(text)) == how
    assert is_failure(answer(text)) is failed


@pytest.mark.parametrize(
    ("line", "failed"),
    [
        ("======== 1 failed, 2 passed in 0.16s ========", True),
        ("======== 40 passed, 40 warnings in 1.29s ========", False),
        ("!!!!!!!! Interrupted: 1 error during collection !!!!!!!!", True),
        ("3 failed", True),
        ("Tests:       1 failed, 2 passed, 3 total", True),
        (" Tests  1 failed | 5 passed (6)", True),
        ("  5 passed (3.2s)", False),
        ("test result: FAILED. 3 passed; 1 failed; 0 ignored; finished in 0.01s", True),
        ("ok  \texample.com/app\t0.012s", False),
        ("FAIL\texample.com/app\t0.012s", True),
        ("[INFO] BUILD SUCCESS", False),
        ("[INFO] BUILD FAILURE", True),
        ("Ran 3 tests in 0.001s", False),
        ("FAILED (failures=1)", True),
        ("Found 7 errors (6 fixed, 1 remaining).", True),
        ("Found 3 errors in 2 files (checked 5 source files)", True),
        ("1 error generated.", True),
        ("0 errors, 0 warnings, 0 informations", False),
        ("12 passed and 1 failed", True),
        ("2 failed tests", True),
    ],
)
def test_a_line_that_counts_tests_or_checks_sums_up_a_run(line: str, failed: bool) -> None:
    assert is_run_of_tests(answer(line))
    assert is_failure(answer(line)) is failed


@pytest.mark.parametrize(
    "line",
    [
        "SSH BRUTE FORCE DETECTED: 6 failed password attempts",
        "3 errors occurred while reading the feed",
        "2 failed to start",
        "bind() to 0.0.0.0:8080 failed (98: Address already in use)",
        "returns 404 errors for pages that are gone",
        "mazes 1 and 5 passed my own eyes",
    ],
)
def test_a_count_of_other_things_is_no_run_of_tests(line: str) -> None:
    assert not is_run_of_tests(answer(line))
    assert ending_of(answer(line)) == ""
    assert not is_failure(answer(line))
