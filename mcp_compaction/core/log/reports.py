"""Reads from what a run printed which files it says it changed; the words are in `tools.toml`."""

from __future__ import annotations

import re
from collections.abc import Container
from functools import cache
from typing import NamedTuple

from mcp_compaction.core.log.commands import only_looks
from mcp_compaction.core.text.patterns import pattern_of
from mcp_compaction.lexicon.tools import Deed, known_reports
from mcp_compaction.shell import programs

_MOST_CHARS = 8_000  # from the end, where a run sums up
_MOST_FILES = 10  # a run that tells of more lists them rather than sums up
_WORDS = pattern_of(r"[\w./~@+-]+")


class Report(NamedTuple):
    """What a run says it did to a file."""

    does: Deed
    path: str


def reports_of(command: str, printed: str, known: Container[str]) -> tuple[Report, ...]:
    """What a run says it did to files that are known or that its command names, in order; what a
    command only shows, or types itself, says nothing. That a file is gone is believed of no run."""
    named = {_clean(word) for word in _WORDS.findall(command)}
    not_here = programs().elsewhere | programs().only_tries
    if only_looks(command) or any(word.rpartition("/")[2] in not_here for word in named):
        return ()
    found = sorted(
        (line.start(), Report(does, _clean(line["path"])))
        for does, pattern in _patterns()
        for line in pattern.finditer(printed[-_MOST_CHARS:])
        if line[0].strip() not in command
    )
    if len(found) > _MOST_FILES:
        return ()
    return tuple(report for _, report in found if report.path in known or report.path in named)


def _clean(path: str) -> str:
    return path.removeprefix("./")


@cache
def _patterns() -> tuple[tuple[Deed, re.Pattern[str]], ...]:
    """Each deed with the pattern of a line that says it and nothing else."""
    before, path = r"^[ \t✓✔✅☑*•-]*", r"[\"'`]?(?P<path>[\w./~@+-]*[\w@+-]\.\w{1,12})[\"'`]?"
    return tuple(
        (sign.does, re.compile(rf"{before}(?:{sign.says})[ \t]+{path}[.!]?[ \t]*$", re.M))
        for sign in known_reports()
    )
