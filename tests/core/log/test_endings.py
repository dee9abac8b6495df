"""How a call ended is told by what its result says, and soon."""

from __future__ import annotations

import pytest

from mcp_compaction.core.log.endings import CallEnding, ending_of_call
from mcp_compaction.model import ToolResult


def ending(text: str) -> CallEnding:
    return ending_of_call(ToolResult(call="a", text=text))


@pytest.mark.parametrize("between", [" ", "\n", " \n ", "\t"])
def test_complaints_of_a_shell_that_end_in_another_word_are_soon_read(between: str) -> None:
    assert ending(f"x: y: Is a directory{between}" * 200 + "z") == "done"


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
