"""Answers about compactions that the system makes by itself."""

from __future__ import annotations

from mcp_compaction.core.compaction.receipt import outcome_text
from mcp_compaction.core.window.fill import Fill
from mcp_compaction.model import Compaction, Outcome

SYSTEM_COMPACTS = (
    "compress_context is not offered here (setting agent_controlled): the system compacts by "
    "itself, and context_stats tells from which fill on. Nothing was done; go on."
)


def compacting_line(fill: Fill) -> str:
    """The line that this process is compacting a full window."""
    return (
        f"the window is {fill.percent:.0f} % full: a compaction is under way; go on, an answer for "
        "this session brings its receipt and directive once it has ended"
    )


def compacting_elsewhere_line(fill: Fill) -> str:
    """The line that another process is compacting a full window."""
    return (
        f"the window is {fill.percent:.0f} % full: another process is compacting it; go on, its "
        "view counts once it has ended"
    )


def relief_text(outcome: Outcome, name: str, *, by_agent: bool) -> str:
    """The result of compacting a full window without being asked.

    `by_agent`: the agent could compress too, and is told how.
    """
    told = outcome_text(outcome, "own", name)
    if not by_agent and not isinstance(outcome, Compaction):
        told = drop_advice(told)
    return f"the window was full:\n{told}"


def drop_advice(text: str) -> str:
    """The reason why nothing was done, without the arguments that would force it."""
    return f"{text.partition('. ')[0].removesuffix('.')}. Go on."
