"""Tells which lines say what a file contained that was changed since."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property

from mcp_compaction.core.log.ledger import CHANGED, FileState
from mcp_compaction.core.text.paths import ends_with_path
from mcp_compaction.core.text.patterns import any_of, pattern_of
from mcp_compaction.core.text.rules import find_rules
from mcp_compaction.lexicon.languages import fill_in_all

_FOUND_IN = pattern_of(r"([^\s:]{1,300}):")  # how a search begins a line that it found
_MARKS = "`*'\""


@dataclass(frozen=True)
class ChangedFiles:
    """The files that calls touched, and since when words of what they contain are no longer so."""

    files: Mapping[str, FileState]

    def is_past(self, sentence: str, seq: int) -> bool:
        """Whether a sentence of a message says what a file contains that was changed after it; one
        that also says a rule stays."""
        said = _says_contents().match(sentence)
        return said is not None and self._is_changed(said[1], seq) and not find_rules(sentence)

    def is_past_line(self, line: str, seq: int) -> bool:
        """Whether a search found a line in a file that was changed after it."""
        found = _FOUND_IN.match(line)
        return found is not None and self._is_changed(found[1], seq)

    def _is_changed(self, name: str, seq: int) -> bool:
        """Whether a file was changed after a message that names it, by its path or by the end of
        it; an end that two known files have tells neither."""
        name = name.strip(_MARKS).removeprefix("./")
        known = self._by_name.get(name.rpartition("/")[2], ())
        whole = [state for state in known if state.path == name and "/" in name]
        meant = whole or [state for state in known if _may_be(state.path, name)]
        return len(meant) == 1 and meant[0].word in CHANGED and int(meant[0].ref[1:]) > seq

    @cached_property
    def _by_name(self) -> dict[str, list[FileState]]:
        found: dict[str, list[FileState]] = {}
        for state in self.files.values():
            found.setdefault(state.path.rpartition("/")[2], []).append(state)
        return found


def _may_be(path: str, name: str) -> bool:
    return ends_with_path(path, name) or ("/" in path and ends_with_path(name, path))


@cache
def _says_contents() -> re.Pattern[str]:
    """A sentence that begins with a file and what is in it."""
    file, contains = fill_in_all("the_file"), fill_in_all("file_contains")
    mark = r"(?:[-*•>]|\d{1,3}[.)])\s+"  # of a list
    return any_of(rf"^\s*(?:{mark})?(?:(?:{file})\s)?(\S{{1,300}})\s(?:{contains})")
