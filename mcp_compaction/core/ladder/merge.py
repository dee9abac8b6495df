"""The fourth rung: neighbouring digests become one, section by section, with nothing reworded."""

from __future__ import annotations

from mcp_compaction.core.parts import Count
from mcp_compaction.core.policy import Policy
from mcp_compaction.core.sheet import Block, DigestBlock, MergeBlock, Sheet


def merge(sheet: Sheet, goal: int, policy: Policy, count: Count) -> Sheet:
    """Every run of neighbouring digests as one digest."""
    blocks: list[Block] = []
    run: list[DigestBlock] = []
    for block in sheet.blocks:
        if isinstance(block, DigestBlock):
            run.append(block)
            continue
        blocks += _merged(run, policy)
        run = []
        blocks.append(block)
    blocks += _merged(run, policy)
    return sheet.after("merge", blocks=tuple(blocks))


def _merged(run: list[DigestBlock], policy: Policy) -> list[Block]:
    together = sum(block.tokens for block in run)
    limit = policy.digest_limit
    if len(run) < 2 or together <= limit + policy.overhead_per_message:
        return list(run)
    return [
        MergeBlock(
            digests=tuple(block.digest for block in run),
            limit=limit,
            tokens=limit + policy.overhead_per_message,
        )
    ]
