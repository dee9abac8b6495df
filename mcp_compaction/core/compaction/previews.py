"""Previews for what is large in a step: its old results and the arguments of its calls."""

from __future__ import annotations

from collections.abc import Iterable

from mcp_compaction.core.compaction.blocks import StepBlock, cuts_of, trim
from mcp_compaction.core.limits import LEAST_TOKENS
from mcp_compaction.core.log.content import part_tokens, string_arguments
from mcp_compaction.core.policy import Policy
from mcp_compaction.core.tokens import CountTokens
from mcp_compaction.core.window.preview import (
    is_large,
    preview,
    preview_chars,
    preview_within,
)
from mcp_compaction.model import Cut, Message, Part, ToolCall, ToolResult


def shrink_step(block: StepBlock, policy: Policy, count: CountTokens) -> StepBlock:
    """A step with previews for what is large in it, but for unread results."""
    return trim(block, dict(_find_cuts(block, policy, count)), count)


def fit_step(block: StepBlock, most: int, count: CountTokens) -> StepBlock:
    """A step in so many tokens beside its unread results, as far as previews can do it: its
    results give way before what its calls were given."""
    for part in (ToolResult, ToolCall):
        over = block.tokens_beside_unread - most
        if over > 0:
            block = trim(block, _find_cuts_of(block, part, over, count), count)
    return block


def _find_cuts_of(
    block: StepBlock,
    kind: type[ToolResult] | type[ToolCall],
    over: int,
    count: CountTokens,
) -> dict[int, list[Cut]]:
    """The cuts of results or calls that free so many tokens."""
    cuts: dict[int, list[Cut]] = {}
    for message, entry in zip(block.step.messages, block.entries, strict=True):
        cut_now = {cut.part: cut for cut in cuts_of(entry)}
        for number, part in enumerate(message.parts):
            now = cut_now.get(number)
            is_stub = now is not None and now.why != "preview"
            if message.seq in block.unread or is_stub or not isinstance(part, kind):
                continue
            size = part_tokens(now.shown if now else part, count)
            if over <= 0 or size <= LEAST_TOKENS:
                continue
            shown = _fit_part(part, message.ref, max(LEAST_TOKENS, size - over), count)
            cut = Cut(part=number, shown=shown, why="preview")
            cuts.setdefault(message.seq, []).append(cut)
            over -= size - part_tokens(shown, count)
    return cuts


def _fit_part(
    part: ToolResult | ToolCall, ref: str, tokens: int, count: CountTokens
) -> ToolResult | ToolCall:
    """A result, or a call by its longest argument, in about so many tokens."""
    if isinstance(part, ToolResult):
        shown = preview_within(part.text, ref, tokens, count)
        return part.model_copy(update={"text": shown})
    named = list(string_arguments(part.arguments))
    if not named:
        return part
    name, value = max(named, key=lambda one: len(one[1]))
    rest = part_tokens(part, count) - count(value)
    shorter = preview_within(value, ref, tokens - rest, count)
    return part.model_copy(update={"arguments": {**part.arguments, name: shorter}})


def _find_cuts(
    block: StepBlock, policy: Policy, count: CountTokens
) -> Iterable[tuple[int, list[Cut]]]:
    for message, entry in zip(block.step.messages, block.entries, strict=True):
        done = {cut.part for cut in cuts_of(entry)}
        cuts = [
            Cut(part=number, shown=shorter, why="preview")
            for number, part in enumerate(message.parts)
            if number not in done
            and not (message.seq in block.unread and isinstance(part, ToolResult))
            and (shorter := _shorten(message, part, policy, count))
        ]
        if cuts:
            yield message.seq, cuts


def _shorten(message: Message, part: Part, policy: Policy, count: CountTokens) -> Part | None:
    """A result or a call with previews for its large texts; None without any."""

    def shorten(text: str) -> str:
        is_short = not is_large(text, policy, count)
        return text if is_short else preview(text, message.ref, preview_chars(policy))

    if isinstance(part, ToolResult):
        shown = part.model_copy(update={"text": shorten(part.text)})
    elif isinstance(part, ToolCall):
        named = {name: shorten(value) for name, value in string_arguments(part.arguments)}
        shown = part.model_copy(update={"arguments": {**part.arguments, **named}})
    else:
        return None
    return None if shown == part else shown
