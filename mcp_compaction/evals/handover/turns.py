"""A session's messages as the measure reads them: who spoke, what was said, typed and run, and the
names by which work goes on: paths, names in code, ids, versions, numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from mcp_compaction.core.log.content import words_of
from mcp_compaction.core.log.identifiers import find_identifiers
from mcp_compaction.core.log.tool_calls import action_of
from mcp_compaction.evals.corpora import leaves_of
from mcp_compaction.formats import IncomingMessage, read
from mcp_compaction.model import Part, Text, ToolCall

_SHORTEST_LINE, _LONGEST_LINE = 8, 160  # characters
_CODE_OR_NUMBER = re.compile(
    r"\b[A-Za-z]+(?:_[A-Za-z0-9]+)+\b|\b[A-Za-z][a-z0-9]+[A-Z]\w+\b"  # a name in code
    r"|\b\d{4,}\b|\b\d+\.\d+(?:\.\d+)+\b"  # a number, a version
)
_SHORTEST = 4
_RUN = re.compile(r"([\w./-]{0,200}?)(\d{1,4})\.\.(\d{1,4})([\w./-]*)")
_LONGEST_RUN = 400


@dataclass(frozen=True)
class Turn:
    """One message."""

    role: str
    parts: tuple[Part, ...]

    @cached_property
    def text(self) -> str:
        """All of it."""
        return "\n".join(map(words_of, self.parts))

    @cached_property
    def said(self) -> str:
        """Its words."""
        return "\n".join(part.text for part in self.parts if isinstance(part, Text))

    @cached_property
    def typed(self) -> str:
        """The values that its calls pass."""
        calls = (part for part in self.parts if isinstance(part, ToolCall))
        return "\n".join(value for call in calls for value in leaves_of(call.arguments))

    @property
    def commands(self) -> Iterator[str]:
        """The lines of the commands that its calls run, without text that is fed to them."""
        for part in self.parts:
            action = action_of(part) if isinstance(part, ToolCall) else None
            if action is not None and action.kind == "run":
                yield from _telling_lines(action.target.partition("<<")[0])

    @property
    def typed_lines(self) -> Iterator[str]:
        """The lines of what its calls pass: of files, scripts, edits."""
        return _telling_lines(self.typed)


def _telling_lines(text: str) -> Iterator[str]:
    for line in map(str.strip, text.split("\n")):
        if _SHORTEST_LINE <= len(line) <= _LONGEST_LINE and " " in line:
            yield line


def turns_of(messages: Sequence[IncomingMessage]) -> tuple[Turn, ...]:
    """Messages as they came, read."""
    return tuple(Turn(*read(message.shape, message.raw)) for message in messages)


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
