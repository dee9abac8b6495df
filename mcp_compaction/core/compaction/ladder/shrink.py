"""The rung for what is long: old tool results and arguments become previews with a ref; where it
runs alone, no digest is made."""

from __future__ import annotations

from collections.abc import Container

from mcp_compaction.core.compaction.blocks import (
    Guard,
    StepBlock,
    WindowPlan,
    blocks_of,
    with_guards,
)
from mcp_compaction.core.compaction.previews import fit_step, shrink_step
from mcp_compaction.core.policy import Policy
from mcp_compaction.core.tokens import CountTokens
from mcp_compaction.model import Digested, Session, Trimmed, View


def shrink(window: WindowPlan, goal: int, policy: Policy, count: CountTokens) -> WindowPlan:
    """Previews replace large results: in the tail until it is within its limit, whatever one of its
    steps printed, then outside it, oldest first, until the goal is met."""
    tail = [b for b in window.blocks if isinstance(b, StepBlock) and b.guard == "tail"]
    over = sum(block.tokens_beside_unread for block in tail) - policy.tail_limit
    shorter = _shrink_under(window, ("tail",), over, policy, count)
    return _shrink_under(shorter, (None, "loop"), shorter.tokens - goal, policy, count)


def _shrink_under(
    window: WindowPlan,
    guards: Container[Guard | None],
    over: int,
    policy: Policy,
    count: CountTokens,
) -> WindowPlan:
    """The window with steps under these guards shrunk, oldest first, until so much is saved."""
    blocks = list(window.blocks)
    for number, block in enumerate(blocks):
        if over > 0 and isinstance(block, StepBlock) and block.guard in guards:
            shorter = shrink_step(block, policy, count)
            over -= block.tokens - shorter.tokens
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
            block = fit_step(block, left, count)
        left -= block.tokens_beside_unread
        if left < 0 and not block.unread:  # no digest stands for what was not read yet
            break
        blocks[number] = block
    return window.after("shrink", blocks=with_guards(blocks, policy, window.tail_most))


def microcompact(session: Session, policy: Policy, count: CountTokens) -> View | None:
    """The view with previews for the large results outside the recent turns; None without any.

    A preview notes how large the original is, and by which ref it is read. In a provider's cache
    all that stands after the oldest new preview is lost.
    """
    window = blocks_of(session, policy)
    stale = tuple(b for b in window.blocks if isinstance(b, StepBlock) and b.guard != "tail")
    shorter = shrink(window.model_copy(update={"blocks": stale}), 0, policy, count)
    view = session.view
    known = {e.seq: e for e in (*view.body, *view.since) if isinstance(e, Trimmed)}
    cut = {
        entry.seq: entry
        for block in shorter.blocks
        if isinstance(block, StepBlock)
        for entry in block.entries
        if isinstance(entry, Trimmed) and entry != known.get(entry.seq)
    }
    if not cut:
        return None
    body = (e if isinstance(e, Digested) else cut.get(e.seq, e) for e in view.body)
    since = {
        **{e.seq: e for e in view.since},
        **{seq: entry for seq, entry in cut.items() if seq > view.upto},
    }
    return view.model_copy(
        update={"body": tuple(body), "since": tuple(since[seq] for seq in sorted(since))}
    )
