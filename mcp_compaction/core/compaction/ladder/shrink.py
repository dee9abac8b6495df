"""The rung for what is long: old tool results and arguments become previews with a ref."""

from __future__ import annotations

from mcp_compaction.core.compaction.blocks import StepBlock, WindowPlan, with_guards
from mcp_compaction.core.compaction.previews import fit_step, shrink_step
from mcp_compaction.core.policy import Policy
from mcp_compaction.core.tokens import CountTokens

_SHARE = 85  # percent of the room left for the newest steps that one of them may take


def shrink(window: WindowPlan, goal: int, policy: Policy, count: CountTokens) -> WindowPlan:
    """Previews replace large results, oldest first, until the goal is met; in the tail only where
    the tail is too large."""
    blocks = list(window.blocks)
    total = window.tokens
    tail = sum(b.tokens for b in blocks if isinstance(b, StepBlock) and b.guard == "tail")
    for number, block in enumerate(blocks):
        if total <= goal:
            break
        if not isinstance(block, StepBlock) or block.guard in ("open", "request"):
            continue
        if block.guard == "tail" and (tail <= policy.tail_limit or number == len(blocks) - 1):
            continue
        shorter = shrink_step(block, policy, count)
        saved = block.tokens - shorter.tokens
        total -= saved
        tail -= saved if block.guard == "tail" else 0
        blocks[number] = shorter
    return window.after("shrink", blocks=tuple(blocks))


def shrink_newest(window: WindowPlan, policy: Policy, count: CountTokens) -> WindowPlan:
    """The newest steps within the room of an explicit target: one that would take most of what
    newer steps leave is cut, its results before the arguments of its calls."""
    blocks = list(window.blocks)
    left = window.tail_most or 0
    for number in reversed(range(len(blocks))):
        block = blocks[number]
        if not isinstance(block, StepBlock):
            continue
        if block.guard not in ("open", "request"):
            block = fit_step(block, left * _SHARE // 100, count)
        left -= block.tokens_beside_unread
        if left < 0:
            break
        blocks[number] = block
    return window.after("shrink", blocks=with_guards(blocks, policy, window.tail_most))
