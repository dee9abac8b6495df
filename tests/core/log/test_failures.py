"""A failure is open until its aim was reached, whichever way."""

from __future__ import annotations

import pytest

from mcp_compaction.core.log.commands import only_reads
from mcp_compaction.core.log.ledger import ledger_of
from tests.core.saying import Json, ran
from tests.sessions import messages_of
from tests.tables import table

URL = "https://x.example/a.tar"
NOT_FOUND = "/bin/sh: 1: wget: not found"
ONE_FAILED = "FAILED tests/test_a.py::test_b - KeyError: 'x'\n1 failed, 40 passed"
HOOK = "hook id: end-of-file-fixer\n- exit code: 1"
NO_FOLDER = "cd:1: no such file or directory"
GO_FAILED = "--- FAIL: TestX (0.00s)\nFAIL\nFAIL\texample.com/cli/point\t0.5s\nFAIL"
LOST = "python: can't open file 'doc/a.py': [Errno 2] No such file or directory\nexit code 2"


def still_open(*steps: list[Json]) -> list[str]:
    messages = messages_of([message for step in steps for message in step])
    return [one.entry.action.target for one in ledger_of(messages).failures]


@pytest.mark.parametrize(
    ("first", "answer", "then", "printed"),
    [
        (f"wget {URL}", NOT_FOUND, f"curl -LO {URL}", "100 1127 saved"),
        (f"wget -O a.tar {URL}", NOT_FOUND, f"curl -Lo b.tar {URL}", "100 1127 saved"),
        (f"git clone {URL}", "fatal: unable\nexit code 128", f"git clone --depth 1 {URL} x", ""),
        ("pip install web", "sh: 1: pip: not found", "uv pip install web", "ok"),
        ("python a.py", "sh: 1: python: not found", "python3 a.py", "ok"),
        ("pytest -q", "sh: 1: pytest: not found", ".venv/bin/python -m pytest -q", "3 passed"),
        ("npm ci", "npm error code E404", "sudo npm ci", "added 4 packages"),
        ("sqlite3 lib/a.db < a.sql", "no such file: a.sql\nexit code 1", "sqlite3 db/a.db", ""),
        ("python doc/a.py", LOST, "python docs/a.py", "ok"),
        ("cd cli && go test -run X", f"{NO_FOLDER}: cli\nexit code 1", "go test -run X",
         "ok"),
        ("git add a.md && git commit -m x", HOOK, "git add a.md b && git commit -m y",
         "[m 1234567] y"),
        ("git commit -m x", HOOK, "git add b.md && git commit -m y", "[main 1234567] y"),
        ("lint run --all", "Error: unknown flag: --all", "lint run", "0 issues"),
        ("pytest specs --spec", "sh: 1: pytest: not found", "python -m pytest", "4 passed"),
        ("pytest --collect-only specs", "=== no tests collected in 0.01s ===\nexit code 5",
         "pytest --spec", "4 passed"),
        ("python solve.py 1", "exit code 1", "cat > best.py <<'E'\nx\nE\npython best.py 1", "ok"),
        ("python solve.py 1", "exit code 1", "cat > solve.py <<'E'\nx\nE", ""),
        ("python solve.py 1", "exit code 1", "rm solve.py", ""),
        ("go build ./... 2>&1 | head -50", "exit code 1", "go build ./... 2>&1 | head -5", ""),
        ("pytest", ONE_FAILED, "pytest -x --tb=short", "41 passed"),
        ("pytest tests/test_a.py -k b", ONE_FAILED, "pytest -q", "41 passed"),
        ("pytest tests/test_a.py", ONE_FAILED, "pytest tests -q", "41 passed"),
        ("pytest", ONE_FAILED, "pytest tests/test_a.py::test_b", "1 passed"),
        ("make test", ONE_FAILED, "pytest tests/test_a.py", "9 passed"),
        ("go test ./cli/point", "FAIL\t./cli/point [setup failed]", "mise run test",
         "ok  \texample.com/cli/point\t1.0s"),
        ("make test", ONE_FAILED, "tox", "tests/test_a.py::test_b PASSED\n41 passed"),
        ("go test ./cli", GO_FAILED, "go test ./...", "ok  \texample.com/cli/point\t1.0s"),
        ("go test ./...", GO_FAILED, "go test ./cli -run TestX", "ok  \texample.com/cli\t1.0s"),
        ("npm test", "FAIL src/a.test.ts\nTests: 1 failed, 3 passed", "npx jest src/a.test.ts",
         "Tests: 2 passed, 2 total"),
        ("cargo test", "test a::b ... FAILED\ntest result: FAILED. 1 failed", "cargo test a::b",
         "test result: ok. 1 passed"),
    ],
)  # fmt: skip
def test_what_was_reached_another_way_is_no_longer_open(
    first: str, answer: str, then: str, printed: str
) -> None:
    assert still_open(ran("1", first, answer)) == [first]
    assert still_open(ran("1", first, answer), ran("2", then, printed)) == []


@pytest.mark.parametrize(
    ("first", "answer", "then", "printed"),
    [
        (f"wget {URL}", NOT_FOUND, "curl -LO https://x.example/b.tar", "saved"),
        (f"wget {URL}", NOT_FOUND, f"curl -I {URL}", "HTTP/2 200"),
        (f"curl -X POST {URL}", "exit code 22", f"curl {URL}", "{}"),
        ("make", "exit code 2", "which make", "/usr/bin/make"),
        ("pip install web", "sh: 1: pip: not found", "echo pip install web", "pip install web"),
        ("python -m pytest", "python: No module named pytest", "pip install pytest", "ok"),
        ("python a.py", "exit code 1", "cat a.py", "x = 1"),
        ("python a.py 1", "exit code 1", "python b.py 1", "ok"),
        ("python a.py", "exit code 1", "cat > try.py <<'E'\nx\nE\npython try.py", "ok"),
        ("python a.py 1", "exit code 1", "sed -i s/a/b/ a.py", ""),
        ("cat > a.py <<'E'\nx\nE\npython a.py", "exit code 1", "python --version", "3.13"),
        ("python a.py", "exit code 1", "python -m py_compile a.py", ""),
        ("python doc/a.py", LOST, "python docs/b.py", "ok"),
        ("make build && make test", "exit code 2", "make test", "ok"),
        ("pytest", ONE_FAILED, "pytest tests/test_z.py", "3 passed"),
        ("pytest", ONE_FAILED, "pytest -k other", "3 passed"),
        ("pytest", ONE_FAILED, "pytest --lf", "no tests ran"),
        ("pytest tests/test_a.py", ONE_FAILED, "pytest --ignore=tests/test_a.py", "3 passed"),
        ("pytest", ONE_FAILED, "pytest --deselect tests/test_a.py::test_b", "40 passed"),
        ("go test ./...", GO_FAILED, "go test ./other", "ok  \texample.com/other\t1.0s"),
        ("npm test", "FAIL src/a.test.ts\nTests: 1 failed, 3 passed", "npx jest src/b.test.ts",
         "Tests: 2 passed, 2 total"),
    ],
)  # fmt: skip
def test_what_something_else_did_is_still_open(
    first: str, answer: str, then: str, printed: str
) -> None:
    assert still_open(ran("1", first, answer), ran("2", then, printed)) == [first]


@pytest.mark.parametrize(
    ("line", "printed"),
    [
        ("file model.pth", "sh: 1: file: not found"),
        ("rg rate src", "sh: 1: rg: not found"),
        ("python -c 'import torch; print(torch.x)'", "AttributeError: x\nexit code 1"),
        ("python3 <<'E'\nimport a\nprint(a.x)\nE", "AttributeError: x\nexit code 1"),
    ],
)
def test_a_look_and_code_of_one_line_leave_nothing_open(line: str, printed: str) -> None:
    assert still_open(ran("1", line, printed)) == []


@pytest.mark.parametrize(
    "line",
    table(__file__, "a_log_that_was_read_has_not_failed"),
)
def test_a_log_that_was_read_has_not_failed(line: str) -> None:
    log = "##[error]Process completed with exit code 1.\nFAILED t.py::test_a - x\n1 failed in 2s"
    assert only_reads(line)
    assert still_open(ran("1", line, log)) == []
