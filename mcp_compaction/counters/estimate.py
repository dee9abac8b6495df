"""The counter that needs nothing installed: the core's estimator behind the counter's port."""

from __future__ import annotations

from mcp_compaction.core.tokens import estimate
from mcp_compaction.model import Precision


class EstimateCounter:
    """Counts by weighted pieces; a few percent off, always there."""

    @property
    def id(self) -> str:
        """The estimator and its weights, by version."""
        return "pieces-1"

    @property
    def precision(self) -> Precision:
        """Always an estimate."""
        return "estimate"

    def count(self, text: str) -> int:
        """The estimated o200k tokens of a text."""
        return estimate(text)
