"""The price of a model's tokens."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from mcp_compaction.model import Value

_Dollars = Annotated[float, Field(ge=0)]


class SummaryPrice(Value):
    """Dollars for a million tokens."""

    input: _Dollars
    output: _Dollars
    cached: _Dollars | None = None  # None: as any other input

    def cost_of(self, read: int, cached: int, written: int) -> float:
        """The cost of one call in dollars; `read` includes the tokens from a cache."""
        again = self.input if self.cached is None else self.cached
        fresh = max(0, read - cached)
        return (fresh * self.input + cached * again + written * self.output) / 1_000_000
