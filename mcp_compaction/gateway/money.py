"""What calls cost, and whether a compaction pays: fewer tokens are not always cheaper.

A provider keeps the beginning of a request in a cache, from which it is read again for a tenth. A
compaction changes that beginning: once, what stands after it is read and kept anew.
"""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

from mcp_compaction.core.wording import kilo
from mcp_compaction.gateway.usage import Usage
from mcp_compaction.model import Value


class Price(NamedTuple):
    """What a million tokens cost, in dollars or in tokens of fresh input."""

    input: float = 1.0
    output: float = 5.0
    cached: float = 0.1
    written: float = 1.25
    written_long: float = 2.0
    is_money: bool = False

    def cost_of(self, usage: Usage) -> float:
        """The cost of one call."""
        paid = (
            usage.fresh * self.input,
            usage.cached * self.cached,
            usage.written * self.written,
            usage.written_long * self.written_long,
            usage.output * self.output,
        )
        return sum(paid) / 1_000_000

    def say(self, cost: float) -> str:
        """A cost in words."""
        if self.is_money:
            return f"${cost:,.2f}" if abs(cost) >= 1 else f"${cost:,.3f}"
        return f"{kilo(round(cost * 1_000_000))} input tokens' worth"


class _Listed(Value):
    pattern: str
    input: float
    output: float
    cached: float
    written: float
    written_long: float
    example: str
    near_miss: str


RELATIVE = Price()
"""The usual relations of a provider's prices, for a model whose price is not known."""


def price_of(model: str) -> Price:
    """The list price of a model; where it is not known, in tokens of fresh input."""
    found = next((one for one in listed_prices() if re.match(one.pattern, model)), None)
    if found is None:
        return RELATIVE
    return Price(
        found.input, found.output, found.cached, found.written, found.written_long, is_money=True
    )


@cache
def listed_prices() -> tuple[_Listed, ...]:
    """The list prices; read once."""
    import tomllib
    from importlib.resources import files

    text = files(__package__ or "").joinpath("prices.toml").read_text(encoding="utf-8")
    return tuple(_Listed.model_validate(entry) for entry in tomllib.loads(text)["price"])


def turns_to_pay(price: Price, before: int, after: int, kept: int, *, is_warm: bool) -> float:
    """The turns after which a compaction has paid for itself; none where the cache is cold.

    `before`, `after`: the tokens of a request; `kept`: those at its start that stay in the cache.
    """
    saved_each = price.cached * (before - after)
    if saved_each <= 0:
        return float("inf")
    if not is_warm:
        return 0.0
    once = price.written * (after - kept) - price.cached * (before - kept)
    return max(0.0, once / saved_each)
