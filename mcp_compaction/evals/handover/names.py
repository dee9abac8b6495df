"""Finds the names in a text by which work goes on: paths, names in code, ids, versions, numbers."""

from __future__ import annotations

import re

from mcp_compaction.core.log.identifiers import find_identifiers

_CODE_OR_NUMBER = re.compile(
    r"\b[A-Za-z]+(?:_[A-Za-z0-9]+)+\b|\b[A-Za-z][a-z0-9]+[A-Z]\w+\b"  # a name in code
    r"|\b\d{4,}\b|\b\d+\.\d+(?:\.\d+)+\b"  # a number, a version
)
_SHORTEST = 4
_RUN = re.compile(r"([\w./-]{0,200}?)(\d{1,4})\.\.(\d{1,4})([\w./-]*)")
_LONGEST_RUN = 400


def names_in(text: str) -> frozenset[str]:
    """The different names of a text."""
    found = {f.text for f in find_identifiers(text) if f.kind in ("file", "url", "id")}
    found.update(_CODE_OR_NUMBER.findall(text))
    return frozenset(name for name in found if len(name) >= _SHORTEST)


def with_runs_written_out(text: str) -> str:
    """A text with what `part_1..33.py` stands for behind it."""
    more = [
        f"{run[1]}{number}{run[4]}"
        for run in _RUN.finditer(text)
        if 0 < int(run[3]) - int(run[2]) <= _LONGEST_RUN
        for number in range(int(run[2]), int(run[3]) + 1)
    ]
    return "\n".join((text, *more))
