"""Identifiers: what summaries lose is found in real output, and nothing else is."""

from __future__ import annotations

from time import process_time
from typing import Any

import pytest

from mcp_compaction.core.log.endings import ending_of, exit_code
from mcp_compaction.core.log.identifiers import (
    Finding,
    error_lines,
    find_identifiers,
    identifiers_by_message,
    identifiers_of_parts,
)
from mcp_compaction.core.log.index import index_of
from mcp_compaction.model import IndexItem, Thinking, ToolCall, ToolResult
from tests.core.saying import assistant, call, failed, ran, read, results, used, user
from tests.sessions import messages_of

PYTHON = """Traceback (most recent call last):
  File "/srv/app/jobs/nightly.py", line 88, in <module>
    run(tenant)
  File "/srv/app/core/run.py", line 12, in run
    return table[tenant]
KeyError: 'tenant_id'
"""
RUST = """error[E0382]: borrow of moved value: `session`
  --> src/store/sqlite.rs:41:17
   |
41 |     drop(session);
"""
GO = """panic: runtime error: index out of range [5] with length 3

goroutine 1 [running]:
main.main()
\t/home/me/go/src/shop/main.go:14 +0x1d
exit status 2
"""


def found(kind: str, text: str) -> list[str]:
    return [finding.text for finding in find_identifiers(text) if finding.kind == kind]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("see src/auth/session.py, please", ["src/auth/session.py"]),
        ("src/api/limits.py:42: too long", ["src/api/limits.py"]),
        ("src/api/limits.py:42:7: E501", ["src/api/limits.py"]),
        ("src/api/limits.py-42-def most", ["src/api/limits.py"]),
        ("src/api/limits.py-43-", ["src/api/limits.py"]),
        ("logs/day-12-run.txt", ["logs/day-12-run.txt"]),
        ("open ./run.sh or ~/notes or ../up", ["./run.sh", "~/notes", "../up"]),
        (".github/workflows/ci.yml", [".github/workflows/ci.yml"]),
        ("--config=conf/app.toml.", ["conf/app.toml"]),
        ('{"file_path":"/etc/nginx/nginx.conf"}', ["/etc/nginx/nginx.conf"]),
        ("`README.md` and (docs/guide.md)!", ["README.md", "docs/guide.md"]),
        ("a/b/c without an ending", ["a/b/c"]),
        ("and/or, 3.14, e.g. this, v1.2.3, a.b.d", []),
        ("/tmp alone", []),
        ("x/" * 200 + "y.py", []),
    ],
)
def test_paths(text: str, expected: list[str]) -> None:
    assert found("file", text) == expected


def test_of_a_windows_path_the_name_is_found() -> None:
    assert found("file", r"C:\Users\me\app\main.py") == ["main.py"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("see https://example.com/a/b?c=1#d.", ["https://example.com/a/b?c=1#d"]),
        ("(http://localhost:8080/health),", ["http://localhost:8080/health"]),
        ("<https://example.com>!?", ["https://example.com"]),
        ("https:/broken http", []),
    ],
)
def test_urls_lose_the_punctuation_after_them(text: str, expected: list[str]) -> None:
    assert found("url", text) == expected


def test_a_word_too_long_to_be_a_name_is_none() -> None:
    assert find_identifiers("https://example.com/" + "a" * 5_000) == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("build 7f3a91c2 is out", ["7f3a91c2"]),
        ("commit 81fc887, then", ["81fc887"]),
        ("deadbeef and 1234567 alone", ["1234567"]),
        (
            "id 3f2b8c1e-9a4d-4e5f-8b6a-7c8d9e0f1a2b!",
            ["3f2b8c1e-9a4d-4e5f-8b6a-7c8d9e0f1a2b"],
        ),
        ("JIRA-1234 fixes #42", ["JIRA-1234", "#42"]),
        ("order req_0012345 of cus_A1234", ["req_0012345", "cus_A1234"]),
        ("req_8f3a91c2d7 by chatcmpl-9f31c07be4", ["req_8f3a91c2d7", "chatcmpl-9f31c07be4"]),
        ("toolu_01AbCdEf23Gh answered", ["toolu_01AbCdEf23Gh"]),
        ("test_facade2, parse_HTTPHeader22, get_added", []),
        ("A4 paper, the 7, wordlike", []),
    ],
)
def test_ids(text: str, expected: list[str]) -> None:
    assert found("id", text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("timeout: 30s", ["timeout=30s"]),
        ("max_retries = 5, then", ["max_retries=5"]),
        ('{"limit":20000,"rate":"1.5"}', ["limit=20000", "rate=1.5"]),
        ("size: 1.5 GB of 20 GB", ["size=1.5 GB"]),
        ("failure rate: 5% of calls", ["rate=5%"]),
        ("load=93 %", ["load=93 %"]),
        ("offset: -40,", ["offset=-40"]),
        ("localhost:8080", ["localhost=8080"]),
        ("at 12:30:45 in 3 rows", []),
    ],
)
def test_numbers_keep_their_keys_and_units(text: str, expected: list[str]) -> None:
    assert found("number", text) == expected


def test_a_python_traceback_gives_its_files_and_its_last_line() -> None:
    assert found("file", PYTHON) == ["/srv/app/jobs/nightly.py", "/srv/app/core/run.py"]
    assert found("error", PYTHON) == ["KeyError: 'tenant_id'"]


def test_a_rust_error_gives_its_place_and_its_line() -> None:
    assert found("file", RUST) == ["src/store/sqlite.rs"]
    assert found("error", RUST) == ["error[E0382]: borrow of moved value: `session`"]


def test_a_go_panic_gives_its_place_and_its_line() -> None:
    assert found("file", GO) == ["/home/me/go/src/shop/main.go"]
    assert found("error", GO) == ["panic: runtime error: index out of range [5] with length 3"]


def test_each_thing_is_found_once_and_in_order() -> None:
    assert find_identifiers("b.py a.py b.py") == (("file", "b.py"), ("file", "a.py"))


def test_an_error_line_is_given_once_and_not_endless() -> None:
    assert list(error_lines("x: error: a error: b\nFAILED c")) == [
        "x: error: a error: b",
        "FAILED c",
    ]
    assert [len(line) for line in error_lines("error: " + "x" * 1_000)] == [300]


def test_a_long_line_of_errors_takes_linear_time() -> None:
    began = process_time()
    find_identifiers("error: x " * 100_000)
    assert process_time() - began < 60  # quadratic: hours


def test_arguments_of_several_lines_give_whole_paths() -> None:
    parts = (ToolCall(id="a", name="Bash", arguments={"command": "set -e\n/opt/app/run.sh -v"}),)
    assert identifiers_of_parts(parts) == (("file", "/opt/app/run.sh"), ("command", "set -e"))


def test_thinking_is_not_looked_into_and_a_blank_command_is_none() -> None:
    assert (
        identifiers_of_parts((Thinking(text="a.py"), ToolCall(id="a", name="Bash", arguments={})))
        == ()
    )


def test_findings_are_kept_by_message() -> None:
    messages = messages_of([user("a.py"), assistant("nothing")])
    assert identifiers_by_message(messages) == {1: (("file", "a.py"),), 2: ()}


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("done\nexit code 127", 127),
        ("exited with code: 1", 1),
        ("exit status 2", 2),
        ("returncode=0", 0),
        ("<returncode>2</returncode>\n\ngrep: out.txt: input file is also the output", 2),
        ("Exit code 3\n" + "x" * 1_000, 3),
        ("all fine", None),
    ],
)
def test_an_exit_code_is_read_where_a_shell_says_it(text: str, code: int | None) -> None:
    assert exit_code(ToolResult(call="a", text=text)) == code


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (ToolResult(call="a", text="== 3 failed, 2 passed in 1s ==\nexit code 1"), "3 failed"),
        (ToolResult(call="a", text="5 passed"), "5 passed"),
        (ToolResult(call="a", text="oh", is_error=True), "failed"),
        (ToolResult(call="a", text="quiet"), ""),
    ],
)
def test_the_outcome_of_a_command_is_a_word_or_two(result: ToolResult, words: str) -> None:
    assert words in ending_of(result)
    assert ending_of(result).startswith("exit 1") == ("exit code 1" in result.text)


def test_an_index_says_what_was_done_and_where_most_useful_first() -> None:
    messages = messages_of(
        [
            user("look at src/a.py and https://example.com/x with depth: 3"),
            *read("1", "src/a.py", "ValueError: no"),
            *used("2", "Edit", "ok", file_path="src/a.py"),
            *read("3", "src/b.py", "src/a.py"),
            *used("4", "Write", "ok", file_path="src/new.py"),
            *ran("5", "pytest\n-q", "1 failed\nexit code 1"),
            *ran("6", "ls", "exit code 0"),
            *used("7", "Read", "?"),
            results(("ghost", "quiet")),
        ]
    )
    assert index_of(messages, identifiers_by_message(messages)) == (
        IndexItem(kind="file", text="src/a.py", note="edited", refs=("m1", "m4")),
        IndexItem(kind="file", text="src/new.py", note="written", refs=("m8",)),
        IndexItem(kind="file", text="src/b.py", note="read", refs=("m6",)),
        IndexItem(kind="command", text="pytest", note="exit 1, 1 failed", refs=("m10",)),
        IndexItem(kind="command", text="ls", note="exit 0", refs=("m12",)),
        IndexItem(kind="error", text="ValueError: no", refs=("m3",)),
        IndexItem(kind="url", text="https://example.com/x", refs=("m1",)),
        IndexItem(kind="number", text="depth=3", refs=("m1",)),
    )


def test_what_became_of_a_file_has_the_ref_of_the_call_that_did_it() -> None:
    messages = messages_of(
        [
            *used("1", "Edit", "Error: no such string", file_path="a.py"),
            *used("2", "Edit", "ok", file_path="a.py"),
            *used("3", "Edit", "Error: no such string", file_path="a.py"),
            *ran("4", "python a.py", "./a.py says hello"),
            *ran("5", "python a.py", "exit code 1"),
        ]
    )
    span, later = messages[:8], messages[8:]
    items = index_of(span, identifiers_by_message(span), later)
    assert [(item.text, item.note, item.refs[-1]) for item in items[:3]] == [
        ("a.py", "edited", "m3"),
        ("./a.py", "edited", "m3"),
        ("python a.py", "exit 1", "m9"),
    ]


def test_a_read_after_an_edit_does_not_hide_the_edit() -> None:
    messages = messages_of(
        [*used("1", "Edit", "ok", file_path="a.py"), *read("2", "a.py", "x"), call("3", "Read")]
    )
    assert [item.note for item in index_of(messages, identifiers_by_message(messages))] == [
        "edited"
    ]


@pytest.mark.parametrize(
    "answer",
    [
        failed("1", "no rule"),
        results(("1", "Error: (eval):1: command not found: make")),
        results(("1", "bash: make: command not found")),
        results(("1", "/bin/sh: 1: make: not found")),
        results(("1", "/usr/bin/python3.13: No module named make")),
        results(("1", "bash: line 3: make: command not found")),
        results(("1", "make: Makefile: No such file or directory")),
    ],
)
def test_a_failed_command_is_noted_as_failed(answer: dict[str, Any]) -> None:
    messages = messages_of([call("1", "Bash", command="make"), answer])
    items = index_of(messages, identifiers_by_message(messages))
    assert items[0] == IndexItem(kind="command", text="make", note="failed", refs=("m1",))


def test_messages_without_findings_have_no_index() -> None:
    assert index_of(messages_of([user("a.py")]), {}) == ()


def test_what_a_call_types_is_no_error() -> None:
    (asked, told) = messages_of(ran("1", "echo 'Error: no such ip'", "Error: no such host"))
    assert "error" not in {one.kind for one in identifiers_of_parts(asked.parts)}
    assert Finding("error", "Error: no such host") in identifiers_of_parts(told.parts)


def test_a_place_in_a_script_and_a_speaker_are_no_keys_of_numbers() -> None:
    assert find_identifiers("sh: 1: rg: not found") == ()
    assert find_identifiers("retries: 3") == (Finding("number", "retries=3"),)
    talk = messages_of([user("Ann: How long?"), assistant("Bo: 5 years already!")])
    assert set(identifiers_by_message(talk).values()) == {()}
