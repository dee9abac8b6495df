"""Shortens stale tool results where they stand: no digest, and every step keeps its place."""

from __future__ import annotations

from mcp_compaction.core.compaction.blocks import StepBlock, blocks_of
from mcp_compaction.core.compaction.ladder.shrink import shrink
from mcp_compaction.core.policy import Policy
from mcp_compaction.core.tokens import CountTokens
from mcp_compaction.model import Digested, Session, Trimmed, View


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
