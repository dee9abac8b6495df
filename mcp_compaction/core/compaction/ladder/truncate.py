"""The last rung: results are cut to the shortest form that is safe, and the index goes."""

from __future__ import annotations

from mcp_compaction.core.compaction.blocks import StepBlock, WindowPlan
from mcp_compaction.core.compaction.previews import (
    cut_unread,
    fit_step,
    give_up_excess,
    unread_tokens,
)
from mcp_compaction.core.policy import Policy
from mcp_compaction.core.tokens import CountTokens


def truncate(window: WindowPlan, goal: int, policy: Policy, count: CountTokens) -> WindowPlan:
    """Results are cut short first, the oldest first; then the index gives way; what is unread gives
    up all but its share before them, and its share after them."""
    window = give_up_excess(window, goal, count)
    blocks, over = list(window.blocks), window.tokens - goal
    for number, block in enumerate(blocks):
        if not isinstance(block, StepBlock) or block.guard in ("open", "request") or over <= 0:
            continue
        blocks[number] = fit_step(block, 0, count)
        over -= block.tokens - blocks[number].tokens
    window = window.after("truncate", blocks=tuple(blocks))
    window = window.shorten_index("truncate", goal, 0)
    left = goal - window.tokens + unread_tokens(window, count)
    return cut_unread(window, left, count)
