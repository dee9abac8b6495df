"""The last rung: results and digests are cut to the shortest form that is safe."""

from __future__ import annotations

from collections.abc import Callable

from mcp_compaction.core.compaction.blocks import (
    Block,
    DigestBlock,
    StepBlock,
    WindowPlan,
)
from mcp_compaction.core.compaction.previews import fit_step
from mcp_compaction.core.compaction.unread import cut_unread, give_up_excess, unread_tokens
from mcp_compaction.core.digest.render import render_digest
from mcp_compaction.core.policy import Policy
from mcp_compaction.core.tokens import CountTokens

_Way = Callable[[Block, Policy, CountTokens], Block]  # makes a block as short as it can be


def truncate(window: WindowPlan, goal: int, policy: Policy, count: CountTokens) -> WindowPlan:
    """Results are cut short first, the oldest first; then the index gives way, and digests are cut
    to rules and open tasks; what is unread gives up all but its share before them, and its share
    after them."""
    window = give_up_excess(window, goal, count)
    window = _truncate_blocks(window, _cut_step, goal, policy, count)
    window = window.shorten_index("truncate", goal, 0)
    window = _truncate_blocks(window, _make_thin, goal, policy, count)
    left = goal - window.tokens + unread_tokens(window, count)
    return cut_unread(window, left, count)


def _truncate_blocks(
    window: WindowPlan, way: _Way, goal: int, policy: Policy, count: CountTokens
) -> WindowPlan:
    blocks = list(window.blocks)
    total = window.tokens
    for number, block in enumerate(blocks):
        if total <= goal:
            break
        shorter = way(block, policy, count)
        total -= block.tokens - shorter.tokens
        blocks[number] = shorter
    return window.after("truncate", blocks=tuple(blocks))


def _cut_step(block: Block, _policy: Policy, count: CountTokens) -> Block:
    """A step with the shortest previews; what is unread gets the room that is left over."""
    if not isinstance(block, StepBlock) or block.guard in ("open", "request"):
        return block
    return fit_step(block, 0, count)


def _make_thin(block: Block, policy: Policy, count: CountTokens) -> Block:
    if not isinstance(block, DigestBlock) or block.thin:
        return block
    tokens = count(render_digest(block.digest, True)) + policy.overhead_per_message
    if tokens >= block.tokens:
        return block
    return block.model_copy(update={"thin": True, "tokens": tokens})
