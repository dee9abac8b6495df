"""How a call ended is told by what its result says, and soon."""

from __future__ import annotations

import pytest

from mcp_compaction.core.log.endings import CallEnding, ending_of_call
from mcp_compaction.model import ToolResult


def ending(text: str) -> CallEnding:
    return ending_of_call(ToolResult(call="a", text=text))


@pytest.mark.parametrize(
    "text",
    [
        "ls: cannot access 'a b': No such file or directory",
        "cat: a: Is a directory\r\ncat: b: Permission denied \n\n",
        "rm: a: No such file or directory\n\n  rm: b: Not a directory",
    ],
)
def test_nothing_but_complaints_of_a_shell_is_a_failure(text: str) -> None:
    assert ending(text) == "failed"


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("bash: make: command not found", "failed"),
        ("-bash: make: command not found", "failed"),
        ("bash: line 3: make: command not found", "failed"),
        ("sh: make: not found", "failed"),
        ("/bin/sh: 1: make: not found", "failed"),
        ("dash: 1: make: not found", "failed"),
        ("./run.sh: 12: make: not found", "failed"),
        ("./build: line 12: make: command not found", "failed"),
        ("zsh: command not found: make", "failed"),
        ("zsh:1: command not found: make", "failed"),
        ("(eval):1: command not found: make", "failed"),
        ("Error: (eval):1: command not found: make", "failed"),
        ("(eval): make: not found", "failed"),
        ("make: command not found", "failed"),
        ("sudo: make: command not found", "failed"),
        ("cache: user_12: not found", "done"),
        ("cache: 12: user: not found", "done"),
        ("GET: 404: not found", "done"),
        ("user_12: not found", "done"),
        ("refresh: user_12: not found", "done"),
        ("bash: the answer to make is not found", "done"),
    ],
)
def test_a_program_is_not_found_where_a_shell_says_so(said: str, expected: CallEnding) -> None:
    assert ending(said) == expected
    assert ending(f"{said}\n3 passed") == expected
