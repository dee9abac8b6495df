"""The ladder: every rung in one table, the gentlest first. A new rung is a file here and a line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

from mcp_compaction.core.compaction.blocks import WindowPlan
from mcp_compaction.core.compaction.ladder.deduplicate import deduplicate
from mcp_compaction.core.compaction.ladder.drop_excerpts import drop_excerpts
from mcp_compaction.core.compaction.ladder.merge import merge
from mcp_compaction.core.compaction.ladder.shrink import shrink
from mcp_compaction.core.compaction.ladder.shrink_request import shrink_request
from mcp_compaction.core.compaction.ladder.shrink_unread import shrink_unread
from mcp_compaction.core.compaction.ladder.summarize import summarize
from mcp_compaction.core.compaction.ladder.truncate import truncate
from mcp_compaction.core.policy import Policy
from mcp_compaction.core.tokens import CountTokens


class Rung(NamedTuple):
    """One way to make the window smaller."""

    name: str  # as receipts are stored
    shown_as: str  # what it freed, in the words of a receipt
    run: Callable[[WindowPlan, int, Policy, CountTokens], WindowPlan]
    phase: Literal["shorten", "digest"]  # whether it runs before digests are written, or after


# The first is run by the plan itself, also where digests are planned already.
LADDER: tuple[Rung, ...] = (
    Rung("drop_excerpts", "excerpts", drop_excerpts, "shorten"),
    Rung("deduplicate", "duplicates", deduplicate, "shorten"),
    Rung("shrink", "old tool results", shrink, "shorten"),
    Rung("shrink_request", "the first request", shrink_request, "shorten"),
    Rung("shrink_unread", "new tool results", shrink_unread, "shorten"),
    Rung("summarize", "old steps", summarize, "digest"),
    Rung("merge", "old digests", merge, "digest"),
    Rung("truncate", "cut short", truncate, "digest"),
)

_SHOWN_AS = {rung.name: rung.shown_as for rung in LADDER}


def shown_as(name: str) -> str:
    """How a receipt calls what a rung freed; a rung of another version goes by its name."""
    return _SHOWN_AS.get(name, name)
