"""Previews for what is large in a step: its old results and the arguments of its calls."""

from __future__ import annotations

from collections.abc import Callable

from mcp_compaction.core.compaction.blocks import StepBlock, cuts_of, trim
from mcp_compaction.core.limits import LEAST_TOKENS
from mcp_compaction.core.log.content import string_arguments
from mcp_compaction.core.policy import Policy
from mcp_compaction.core.tokens import CountTokens
from mcp_compaction.core.window.preview import is_large, preview, preview_chars, preview_within
from mcp_compaction.model import Cut, Part, ToolCall, ToolResult

_Shorten = Callable[[str, str, str], str]  # a text, what is shown of it now, and its ref


def shrink_step(block: StepBlock, policy: Policy, count: CountTokens) -> StepBlock:
    """A step with previews for what is large in it, but for unread results."""
    chars = preview_chars(policy)

    def shorten(text: str, now: str, ref: str) -> str:
        return preview(text, ref, chars) if is_large(now, policy, count) else now

    return _trim_parts(block, (ToolResult, ToolCall), shorten, count)


def fit_step(block: StepBlock, most: int, count: CountTokens) -> StepBlock:
    """A step in so many tokens beside its unread results, as far as previews can do it: its
    results give way before what its calls were given."""
    over = 0

    def shorten(text: str, now: str, ref: str) -> str:
        nonlocal over
        size = count(now)
        if over <= 0 or size <= LEAST_TOKENS:
            return now
        shown = preview_within(text, ref, max(LEAST_TOKENS, size - over), count)
        over -= size - count(shown)
        return shown

    for kind in (ToolResult, ToolCall):
        over = block.tokens_beside_unread - most
        block = _trim_parts(block, (kind,), shorten, count)
    return block


def _trim_parts(
    block: StepBlock,
    kinds: tuple[type[ToolResult] | type[ToolCall], ...],
    shorten: _Shorten,
    count: CountTokens,
) -> StepBlock:
    """A step with its results, or the arguments of its calls, shown shorter."""
    cuts: dict[int, list[Cut]] = {}
    for message, entry in zip(block.step.messages, block.entries, strict=True):
        known = {cut.part: cut for cut in cuts_of(entry)}
        for number, part in enumerate(message.parts):
            now = known.get(number)
            is_stub = now is not None and now.why != "preview"
            if message.seq in block.unread or is_stub or not isinstance(part, kinds):
                continue
            shown = _shorten_part(part, now.shown if now else part, message.ref, shorten)
            if shown != part:
                cut = Cut(part=number, shown=shown, why="preview")
                cuts.setdefault(message.seq, []).append(cut)
    return trim(block, cuts, count)


def _shorten_part(part: Part, now: Part, ref: str, shorten: _Shorten) -> Part:
    if isinstance(part, ToolResult) and isinstance(now, ToolResult):
        return part.model_copy(update={"text": shorten(part.text, now.text, ref)})
    if isinstance(part, ToolCall) and isinstance(now, ToolCall):
        named, shown = (dict(string_arguments(one.arguments)) for one in (part, now))
        longest_first = sorted(named, key=lambda one: -len(named[one]))
        texts = {name: shorten(named[name], shown[name], ref) for name in longest_first}
        return part.model_copy(update={"arguments": {**part.arguments, **texts}})
    return part
