"""The rung that merges: neighboring digests become one, with nothing reworded."""

from __future__ import annotations

from mcp_compaction.core.compaction.blocks import Block, DigestBlock, MergeBlock, WindowPlan
from mcp_compaction.core.policy import Policy
from mcp_compaction.core.tokens import CountTokens


def merge(window: WindowPlan, goal: int, policy: Policy, count: CountTokens) -> WindowPlan:
    """Every run of neighboring digests becomes one digest, where that is smaller."""
    return _merge_runs(window, policy, policy.digest_limit + policy.overhead_per_message)


def merge_all(window: WindowPlan, policy: Policy) -> WindowPlan:
    """Every run of neighboring digests becomes one digest, however small they are."""
    return _merge_runs(window, policy, 0)


def _merge_runs(window: WindowPlan, policy: Policy, over: int) -> WindowPlan:
    blocks: list[Block] = []
    run: list[DigestBlock] = []
    for block in window.blocks:
        if isinstance(block, DigestBlock):
            run.append(block)
            continue
        blocks += _merge_run(run, policy, over)
        run = []
        blocks.append(block)
    blocks += _merge_run(run, policy, over)
    return window.after("merge", blocks=tuple(blocks))


def _merge_run(run: list[DigestBlock], policy: Policy, over: int) -> list[Block]:
    together = sum(block.tokens for block in run)
    if len(run) < 2 or together <= over:
        return list(run)
    limit = max(1, min(policy.digest_limit, together - policy.overhead_per_message - 1))
    return [
        MergeBlock(
            digests=tuple(block.digest for block in run),
            limit=limit,
            tokens=limit + policy.overhead_per_message,
        )
    ]
