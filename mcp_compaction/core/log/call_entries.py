"""Lays calls beside their results: what each was to do, and how it ended."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from mcp_compaction.core.limits import LONGEST_ANSWER, LONGEST_LINE
from mcp_compaction.core.log.commands import only_reads
from mcp_compaction.core.log.endings import CallEnding, ending_of_call
from mcp_compaction.core.log.tool_calls import Action, action_of, answers_of, values_of
from mcp_compaction.core.text.words import one_line, shorten
from mcp_compaction.model import Message, ToolCall, ToolResult

CHANGES = ("write", "edit")
"""The kinds of actions that change the file that they name."""
_SAYS_UNCHANGED = ("(No changes)", "No replacement was performed", "No changes to make")


class CallEntry(NamedTuple):
    """One call, what it was to do, and how it ended."""

    call: ToolCall
    result: ToolResult | None
    action: Action
    ending: CallEnding
    ref: str  # of the message that made the call
    result_ref: str  # of the message that answered it, or else of the same

    @property
    def form(self) -> str:
        """What makes two calls the same: the command line, or the file to change."""
        action = self.action
        if action.kind == "run":
            return f"run {one_line(action.target)}"
        does = "change" if action.kind in CHANGES else f"{self.call.name} {action.kind}"
        return f"{does} {action.target.removeprefix('./')}"

    @property
    def changed_nothing(self) -> bool:
        """Whether the file that the call was to change is as before, by what it was answered."""
        said = self.result.text[:LONGEST_ANSWER].lstrip() if self.result is not None else ""
        return self.action.kind in CHANGES and said.startswith(_SAYS_UNCHANGED)

    @property
    def argument(self) -> str:
        """What the call was given that tells what it was for, on one line."""
        action = self.action
        if not action.target or action.kind in ("search", "other"):  # told by what it looks for
            return one_line(" ".join(values_of(self.call.arguments)))[:LONGEST_LINE]
        target = one_line(action.target[:LONGEST_ANSWER])
        return f"{target} {action.detail}".strip() if action.kind == "read" else target

    def line(self, most: int) -> str:
        """The tool and what it was given, in so many characters: of a path its end."""
        argument = self.argument
        if len(argument) > most:
            is_path = " " not in argument
            argument = f"…{argument[-most:]}" if is_path else shorten(argument, most)
        return f"{self.call.name} {argument}".strip()


def entries_of(messages: Sequence[Message]) -> Iterator[CallEntry]:
    """Each call in order."""
    answers = answers_of(messages)
    for message in messages:
        for call in message.calls:
            where, result = answers.get((message.ref, call.id), (message.ref, None))
            action = action_of(call)
            reads = action.kind == "read" or only_reads(action.target)
            ending = ending_of_call(result, reads=reads) if result is not None else "running"
            yield CallEntry(call, result, action, ending, message.ref, where)
