"""How a call ended is told by what its result says, and soon."""

from __future__ import annotations

import pytest

from mcp_compaction.core.log.endings import CallEnding, ending_of_call
from mcp_compaction.model import ToolResult
from tests.tables import table


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
    table(__file__, "a_program_is_not_found_where_a_shell_says_so"),
)
def test_a_program_is_not_found_where_a_shell_says_so(said: str, expected: CallEnding) -> None:
    assert ending(said) == expected
    assert ending(f"{said}\n3 passed") == expected
