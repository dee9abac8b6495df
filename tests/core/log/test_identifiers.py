"""Identifiers: what summaries lose is found in real output, and nothing else is."""

from __future__ import annotations

from time import process_time

import pytest

from mcp_compaction.core.log.endings import ending_of
from mcp_compaction.core.log.identifiers import (
    find_identifiers,
    identifiers_by_message,
)
from mcp_compaction.core.log.ledger import index_of
from mcp_compaction.model import IndexItem, ToolResult
from tests.core.saying import ran, read, results, used, user
from tests.sessions import messages_of


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


def test_a_long_line_of_errors_takes_linear_time() -> None:
    began = process_time()
    find_identifiers("error: x " * 100_000)
    assert process_time() - began < 60  # quadratic: hours


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
    )
