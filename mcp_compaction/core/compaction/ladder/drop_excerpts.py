"""The gentlest rung: excerpts leave the window; the best come back where there is room."""

from __future__ import annotations

from mcp_compaction.core.compaction.blocks import Sheet
from mcp_compaction.core.log.content import Count
from mcp_compaction.core.policy import Policy


def drop_excerpts(sheet: Sheet, goal: int, policy: Policy, count: Count) -> Sheet:
    """The sheet without excerpts: they filled the room there was, and there is none now."""
    return sheet.after("drop_excerpts", promoted=0)
