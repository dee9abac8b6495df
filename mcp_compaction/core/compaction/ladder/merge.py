"""The rung that merges: neighboring digests become one, with nothing reworded."""

from __future__ import annotations

from mcp_compaction.core.compaction.blocks import Block, DigestBlock, MergeBlock, WindowPlan
from mcp_compaction.core.digest.fit import cost_of_frame, cost_of_staying
from mcp_compaction.core.policy import Policy
from mcp_compaction.core.tokens import CountTokens


def merge(window: WindowPlan, goal: int, policy: Policy, count: CountTokens) -> WindowPlan:
    """Every run of neighboring digests becomes one digest, where that is smaller."""
    return _merge_runs(window, policy, policy.digest_limit + policy.overhead_per_message, count)


def merge_all(window: WindowPlan, policy: Policy, count: CountTokens) -> WindowPlan:
    """Every run of neighboring digests becomes one digest, however small they are."""
    return _merge_runs(window, policy, 0, count)


def _merge_runs(window: WindowPlan, policy: Policy, over: int, count: CountTokens) -> WindowPlan:
    blocks: list[Block] = []
    run: list[DigestBlock] = []
    stays = 0  # tokens of the run that no limit takes out: one digest may not be larger for them
    for block in window.blocks:
        if isinstance(block, DigestBlock):
            needed = cost_of_staying(block.digest.sections, count)
            if run and stays + needed > policy.digest_limit - cost_of_frame(block.digest, count):
                blocks += _merge_run(run, policy, over)
                run, stays = [], 0
            run.append(block)
            stays += needed
            continue
        blocks += _merge_run(run, policy, over)
        run, stays = [], 0
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
