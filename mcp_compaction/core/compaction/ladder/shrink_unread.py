"""The rung for unread results that are too large for any window of this size."""

from __future__ import annotations

from mcp_compaction.core.compaction.blocks import WindowPlan
from mcp_compaction.core.compaction.previews import give_up_excess, unread_tokens
from mcp_compaction.core.policy import Policy
from mcp_compaction.core.tokens import CountTokens


def shrink_unread(window: WindowPlan, goal: int, policy: Policy, count: CountTokens) -> WindowPlan:
    """Unread results that would not fit if they stood alone are cut at once: the steps around
    them need not give way as well."""
    if window.fixed + unread_tokens(window, count) <= goal:
        return window
    return give_up_excess(window, goal, count)
