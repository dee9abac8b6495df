"""The Python in the documents: fenced blocks, what they print, and what they import."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]

_BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.M | re.S)


class Block(NamedTuple):
    """A fenced block of Python, and the output that stands below it, if any does."""

    code: str
    output: str | None


def python_blocks(text: str) -> list[Block]:
    """The blocks of Python in a Markdown text."""
    return [Block(found[1], found[2]) for found in _BLOCK.finditer(text)]


def modules_imported(code: str) -> Iterator[str]:
    """The modules of this package that a program imports from, by whatever form."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        yield from (name for name in names if name.partition(".")[0] == "mcp_compaction")
