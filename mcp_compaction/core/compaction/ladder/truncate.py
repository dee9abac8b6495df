"""The last rung: results and digests are cut to the shortest form that is safe."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mcp_compaction.core.compaction.blocks import (
    Block,
    DigestBlock,
    MergeBlock,
    StepBlock,
    WindowPlan,
    cuts_of,
    trim,
)
from mcp_compaction.core.compaction.previews import show_part_of_result, shrink_step
from mcp_compaction.core.compaction.unread import (
    cut_unread,
    give_up_excess,
    room_beside_rest,
    unread_tokens,
)
from mcp_compaction.core.digest.render import render_digest
from mcp_compaction.core.policy import SHARES, Policy
from mcp_compaction.core.tokens import CountTokens
from mcp_compaction.core.window.preview import preview_chars
from mcp_compaction.model import Cut, ToolResult

# Makes a block shorter: by so many tokens where it can be told, else as far as it goes.
_Way = Callable[[Block, int, Policy, CountTokens], Block]
_LEAST_SHARE = 8  # a truncated result shows an eighth of what a preview does


def truncate(window: WindowPlan, goal: int, policy: Policy, count: CountTokens) -> WindowPlan:
    """Results are cut short first, the oldest first; then digests lose a few lines, if that is
    enough; then the index gives way, and digests are cut to rules and open tasks; what is unread
    gives up all but its share before them, and its share after them."""
    window = give_up_excess(window, "truncate", goal, count)
    window = _truncate_blocks(window, (_shorten_results, _cut_lines), goal, policy, count)
    window = window.shorten_index("truncate", goal, 0)
    last = (_cut_lines, _make_thin, _shrink_unread_step)
    window = _truncate_blocks(window, last, goal, policy, count)
    if window.tokens <= goal:
        return window
    left = room_beside_rest(window, goal, unread_tokens(window, count))
    return cut_unread(window, "truncate", left, count)


def _truncate_blocks(
    window: WindowPlan, ways: Sequence[_Way], goal: int, policy: Policy, count: CountTokens
) -> WindowPlan:
    blocks = list(window.blocks)
    total = window.tokens
    for way in ways:
        for number, block in enumerate(blocks):
            if total <= goal:
                break
            shorter = way(block, total - goal, policy, count)
            total -= block.tokens - shorter.tokens
            blocks[number] = shorter
    return window.after("truncate", blocks=tuple(blocks))


def _shorten_results(block: Block, _over: int, policy: Policy, count: CountTokens) -> Block:
    if not isinstance(block, StepBlock) or block.guard in ("open", "request"):
        return block
    chars = preview_chars(policy) // _LEAST_SHARE
    cuts: dict[int, list[Cut]] = {}
    for message, entry in zip(block.step.messages, block.entries, strict=True):
        if message.seq in block.unread:
            continue
        done = {cut.part for cut in cuts_of(entry) if cut.why != "preview"}
        for number, part in enumerate(message.parts):
            if isinstance(part, ToolResult) and number not in done and len(part.text) > 4 * chars:
                shown = show_part_of_result(part, message.ref, chars)
                cut = Cut(part=number, shown=shown, why="truncated")
                cuts.setdefault(message.seq, []).append(cut)
    return trim(block, cuts, count) if cuts else block


def _shrink_unread_step(block: Block, _over: int, policy: Policy, count: CountTokens) -> Block:
    """What a call was given is worth less than the answer that it waits for."""
    if not isinstance(block, StepBlock) or not block.unread:
        return block
    return shrink_step(block, policy, count)


def _cut_lines(block: Block, over: int, policy: Policy, count: CountTokens) -> Block:
    """A digest that gives up what the goal needs, where what is left holds all that must stay."""
    if not isinstance(block, DigestBlock) or block.thin:
        return block
    limit = block.tokens - policy.overhead_per_message - over
    least = max(SHARES.least_digest, count(render_digest(block.digest, True)))
    if limit < least:
        return block
    tokens = limit + policy.overhead_per_message
    return MergeBlock(digests=(block.digest,), limit=limit, tokens=tokens)


def _make_thin(block: Block, _over: int, policy: Policy, count: CountTokens) -> Block:
    if not isinstance(block, DigestBlock) or block.thin:
        return block
    tokens = count(render_digest(block.digest, True)) + policy.overhead_per_message
    if tokens >= block.tokens:
        return block
    return block.model_copy(update={"thin": True, "tokens": tokens})
