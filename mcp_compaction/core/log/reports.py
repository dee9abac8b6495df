"""Reads from what a run printed which files it says it changed; the words are in `tools.toml`."""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

from mcp_compaction.core.log.families import only_looks
from mcp_compaction.lexicon.tools import Deed, known_reports

_MOST_CHARS = 8_000  # from the end, where a run sums up
_MOST_FILES = 10  # a run that tells of more lists them rather than sums up


class Report(NamedTuple):
    """What a run says it did to a file."""

    does: Deed
    path: str


def reports_of(command: str, printed: str) -> tuple[Report, ...]:
    """What a run says it did to files, in order; what a command only shows, or types itself, says
    nothing."""
    if only_looks(command):
        return ()
    found = sorted(
        (line.start(), Report(does, line["path"]))
        for does, pattern in _patterns()
        for line in pattern.finditer(printed[-_MOST_CHARS:])
        if line[0].strip() not in command
    )
    return tuple(report for _, report in found) if len(found) <= _MOST_FILES else ()


@cache
def _patterns() -> tuple[tuple[Deed, re.Pattern[str]], ...]:
    """Each deed with the pattern of a line that says it and nothing else."""
    before, path = r"^[ \t✓✔✅☑*•-]*", r"[\"'`]?(?P<path>[\w./~@+-]*[\w@+-]\.\w{1,12})[\"'`]?"
    return tuple(
        (sign.does, re.compile(rf"{before}(?:{sign.says})[ \t]+{path}[.!]?[ \t]*$", re.M))
        for sign in known_reports()
    )
