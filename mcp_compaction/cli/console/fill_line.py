"""The one line that says how full a window is."""

from __future__ import annotations

from mcp_compaction.cli.console.screen import Screen
from mcp_compaction.core.window.fill import Fill
from mcp_compaction.core.wording import kilo


def fill_line(fill: Fill, screen: Screen) -> str:
    """The fill with its bar: `[######------] 61 % of 200k tokens (exact), 78k left`."""
    return (
        f"{screen.bar(fill.percent)}{screen.bold(f'{fill.percent:.0f} %')} of {kilo(fill.window)} "
        f"tokens ({fill.precision}), {kilo(fill.room)} left"
    )
