"""A session's messages as the measure reads them: who spoke, what was said, typed and run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from mcp_compaction.core.log.content import words_of
from mcp_compaction.core.log.tool_calls import action_of
from mcp_compaction.evals.corpora import leaves_of
from mcp_compaction.formats import IncomingMessage, read
from mcp_compaction.model import Part, Text, ToolCall

_SHORTEST_LINE, _LONGEST_LINE = 8, 160  # characters


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
