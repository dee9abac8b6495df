"""The gentlest rung: excerpts leave the window; the best come back where there is room."""

from __future__ import annotations

from mcp_compaction.core.compaction.blocks import WindowPlan
from mcp_compaction.core.policy import Policy
from mcp_compaction.core.tokens import CountTokens


def drop_excerpts(window: WindowPlan, goal: int, policy: Policy, count: CountTokens) -> WindowPlan:
    """The window without excerpts: they filled the room there was, and there is none now."""
    return window.after("drop_excerpts", excerpts=0)
