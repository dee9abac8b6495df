"""Plain accounts of a session in a number of tokens, which read no meaning: what our views have to
beat where more is told than the newest lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from mcp_compaction.core.compaction import plain_views
from mcp_compaction.core.tokens import CountTokens
from mcp_compaction.evals.handover import PlainWay, names_by_use
from mcp_compaction.evals.handover_sessions import Turn


def talk_and_steps(turns: Sequence[Turn], budget: float, count: CountTokens) -> str:
    """All that was said, each call in a line, and the names that calls passed."""
    return plain_views.talk_and_steps(turns, budget, count, names_by_use(turns))


ACCOUNTS: Mapping[str, PlainWay] = MappingProxyType(
    {"talk and steps": talk_and_steps, "tickets": plain_views.tickets}
)
