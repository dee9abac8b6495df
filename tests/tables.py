"""Long tables of wordings stand beside the tests that read them, as text and not as code."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any


def table(test: str, name: str) -> list[Any]:
    """The rows of a table in the file beside a test (its `__file__`): one a line, a text or, where
    ` ¦ ` parts columns, a tuple of texts; a sign ⏎ stands for a line break."""
    tables = tomllib.loads(Path(test).with_suffix(".toml").read_text(encoding="utf-8"))
    rows = tables[name].removesuffix("\n").replace("⏎", "\v").split("\n")
    parted = [[cell.replace("\v", "\n") for cell in row.split(" ¦ ")] for row in rows]
    return [tuple(row) if len(row) > 1 else row[0] for row in parted]
