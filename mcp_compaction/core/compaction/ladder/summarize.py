"""The rung that writes digests: runs of old steps give way to a digest each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mcp_compaction.core.compaction.blocks import (
    Block,
    DigestBlock,
    Guard,
    SpanBlock,
    StepBlock,
    WindowPlan,
)
from mcp_compaction.core.limits import LEAST_TOKENS
from mcp_compaction.core.policy import Policy
from mcp_compaction.core.tokens import CountTokens

LEAST_TO_DIGEST = 2 * LEAST_TOKENS  # of steps: a digest of fewer frees next to nothing


def summarize(window: WindowPlan, goal: int, policy: Policy, count: CountTokens) -> WindowPlan:
    """Digests replace the fewest old steps that reach the goal; the work in progress only where
    it must be."""
    free = _steps_under(None, window)
    best = _plan_fewest(window, free, goal, policy)
    if best.tokens > goal:
        work = _steps_under("loop", window)
        best = min(best, _plan_fewest(window, [*free, *work], goal, policy), key=_tokens_of)
    return min(window, best, key=_tokens_of)


def summarize_all(window: WindowPlan, policy: Policy, wanted: Iterable[int]) -> WindowPlan:
    """Digests for all these blocks, however small the need."""
    return min(window, _plan_digests(window, sorted(wanted), policy), key=_tokens_of)


def _plan_fewest(
    window: WindowPlan, candidates: Sequence[int], goal: int, policy: Policy
) -> WindowPlan:
    """The window with the shortest run of candidates digested that reaches the goal, else all."""
    low, high = 1, len(candidates)
    while low < high:
        middle = (low + high) // 2
        if _plan_digests(window, candidates[:middle], policy).tokens <= goal:
            high = middle
        else:
            low = middle + 1
    return _plan_digests(window, candidates[:low], policy)


def _plan_digests(window: WindowPlan, chosen: Sequence[int], policy: Policy) -> WindowPlan:
    blocks: list[Block] = []
    run: list[StepBlock] = []
    wanted = set(chosen)

    def joins_digest(following: Block | None) -> bool:
        beside = [isinstance(b, DigestBlock) for b in (following, *blocks[-1:])]
        # An explicit target merges all neighbors afterwards; a request that no digest took in
        # would keep those on either side of it apart for good.
        return any(beside) if window.tail_most is not None else sum(beside) == 2

    for number, block in enumerate(window.blocks):
        if number in wanted and isinstance(block, StepBlock):
            run.append(block)
            continue
        blocks += _plan_digest(run, policy, joins_digest(block))
        run = []
        blocks.append(block)
    blocks += _plan_digest(run, policy, joins_digest(None))
    has_new = any(isinstance(block, SpanBlock) for block in blocks)
    most = policy.index_limit
    if window.index_most is not None:
        most = min(most, window.index_most)
    return window.after(
        "summarize",
        blocks=tuple(blocks),
        index=max(window.index, most) if has_new else window.index,
    )


def _plan_digest(run: Sequence[StepBlock], policy: Policy, joins_digest: bool) -> Sequence[Block]:
    """A digest for a run of steps; for a small run only where a neighbor will take it in."""
    replaced = sum(block.tokens for block in run)
    if not run or (replaced < LEAST_TO_DIGEST and not joins_digest):
        return run
    limit = max(LEAST_TOKENS, min(policy.digest_limit, replaced // 2))
    return [
        SpanBlock(
            steps=tuple(block.step for block in run),
            replaced=replaced,
            limit=limit,
            tokens=limit + policy.overhead_per_message,
        )
    ]


def _steps_under(guard: Guard | None, window: WindowPlan) -> list[int]:
    blocks = enumerate(window.blocks)
    return [n for n, block in blocks if isinstance(block, StepBlock) and block.gives_way(guard)]


def _tokens_of(window: WindowPlan) -> int:
    return window.tokens
