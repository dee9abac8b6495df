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
from mcp_compaction.core.compaction.ladder.summarize import summarize
from mcp_compaction.core.compaction.ladder.truncate import truncate
from mcp_compaction.core.policy import Policy
from mcp_compaction.core.tokens import CountTokens


class Rung(NamedTuple):
    """One way to make the window smaller."""

    name: str  # as receipts are stored
    shown_as: str  # what it freed, in the words of a receipt
    run: Callable[[WindowPlan, int, Policy, CountTokens], WindowPlan]
    before: Literal["digests", "end"] = "end"  # before digests: it only shows things shorter


LADDER: tuple[Rung, ...] = (
    Rung("drop_excerpts", "excerpts", drop_excerpts, before="digests"),
    Rung("deduplicate", "duplicates", deduplicate, before="digests"),
    Rung("shrink", "old tool results", shrink, before="digests"),
    Rung("shrink_request", "the first request", shrink_request, before="digests"),
    Rung("summarize", "old steps", summarize),
    Rung("merge", "old digests", merge),
    Rung("truncate", "cut short", truncate),
)

_SHOWN_AS = {rung.name: rung.shown_as for rung in LADDER}


def shown_as(name: str) -> str:
    """How a receipt calls what a rung freed; a rung of another version goes by its name."""
    return _SHOWN_AS.get(name, name)
