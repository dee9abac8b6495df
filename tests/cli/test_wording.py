"""The words a person reads: what is rewritten, what is counted, what is named."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import mcp_compaction
from mcp_compaction.cli.console.wording import ADVICE, for_person

PACKAGE = Path(mcp_compaction.__file__).parent
TOOL_SPEAK = ("force=", "kind=", "restore_context", "Call again", "record messages")


def told_by_the_core() -> Iterator[str]:
    """Every text in the code of the core and the compactor, docstrings left out."""
    rooms = (PACKAGE / "compactor", PACKAGE / "core")
    for path in (path for room in rooms for path in room.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        texts = (node for node in ast.walk(tree) if isinstance(node, ast.Constant))
        for node in texts:
            if isinstance(node.value, str) and id(node) not in docs:
                yield node.value


def test_what_is_rewritten_is_what_the_core_says_and_no_tools_argument_is_left_in_it() -> None:
    texts = tuple(told_by_the_core())

    assert [said for said, _ in ADVICE if not any(said in text for text in texts)] == []
    assert [text for text in texts if any(word in for_person(text) for word in TOOL_SPEAK)] == []
