"""The rung for unread results that are too large for any window of this size."""

from __future__ import annotations

from mcp_compaction.core.compaction.blocks import WindowPlan
from mcp_compaction.core.compaction.unread import cut_unread, room_of_unread, unread_tokens
from mcp_compaction.core.policy import Policy
from mcp_compaction.core.tokens import CountTokens


def shrink_unread(window: WindowPlan, goal: int, policy: Policy, count: CountTokens) -> WindowPlan:
    """Unread results that would not fit if they stood alone are cut at once: the steps around
    them need not give way as well."""
    taken = unread_tokens(window, count)
    if window.fixed + taken <= goal:
        return window
    return cut_unread(window, "shrink_unread", room_of_unread(window, goal, taken), count)
