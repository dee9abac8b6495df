"""Previews for what is large in a step: its old results and the arguments of its calls."""

from __future__ import annotations

from collections.abc import Iterable

from mcp_compaction.core.compaction.blocks import StepBlock, cuts_of, trim
from mcp_compaction.core.log.content import string_arguments
from mcp_compaction.core.policy import Policy
from mcp_compaction.core.tokens import CountTokens
from mcp_compaction.core.window.preview import is_large, preview, preview_chars
from mcp_compaction.model import Cut, JsonObject, Message, Part, ToolCall, ToolResult


def shrink_step(block: StepBlock, policy: Policy, count: CountTokens) -> StepBlock:
    """A step with previews for what is large in it, but for unread results."""
    return trim(block, dict(_find_cuts(block, policy, count)), count)


def _find_cuts(
    block: StepBlock, policy: Policy, count: CountTokens
) -> Iterable[tuple[int, list[Cut]]]:
    for message, entry in zip(block.step.messages, block.entries, strict=True):
        done = {cut.part for cut in cuts_of(entry) if not _is_long(cut, policy, count)}
        cuts = [
            Cut(part=number, shown=shorter, why="preview")
            for number, part in enumerate(message.parts)
            if number not in done
            and not (message.seq in block.unread and isinstance(part, ToolResult))
            and (shorter := _shorten(message, part, policy, count))
        ]
        if cuts:
            yield message.seq, cuts


def _is_long(cut: Cut, policy: Policy, count: CountTokens) -> bool:
    """Whether a cut shows much: the result had not been read then, and there was room for it."""
    if cut.why != "preview" or not isinstance(cut.shown, ToolResult):
        return False
    return is_large(cut.shown.text, policy, count)


def _shorten(message: Message, part: Part, policy: Policy, count: CountTokens) -> Part | None:
    if isinstance(part, ToolResult) and is_large(part.text, policy, count):
        return part.model_copy(
            update={"text": preview(part.text, message.ref, preview_chars(policy))}
        )
    if isinstance(part, ToolCall):
        arguments = _shorten_arguments(part.arguments, message.ref, policy, count)
        if arguments != part.arguments:
            return part.model_copy(update={"arguments": arguments})
    return None


def _shorten_arguments(
    arguments: JsonObject, ref: str, policy: Policy, count: CountTokens
) -> JsonObject:
    clipped = dict(arguments)
    for name, value in string_arguments(arguments):
        if is_large(value, policy, count):
            clipped[name] = preview(value, ref, preview_chars(policy))
    return clipped
