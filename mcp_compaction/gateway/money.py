"""What calls cost, and whether a compaction pays: fewer tokens are not always cheaper.

A provider keeps the beginning of a request in a cache, from which it is read again for a tenth or
less. A compaction changes that beginning: once, what stands after it is read and kept anew.
"""

from __future__ import annotations

from typing import NamedTuple

from mcp_compaction.core.wording import kilo
from mcp_compaction.gateway.usage import Usage
from mcp_compaction.lexicon.models import find_listed_price


class Price(NamedTuple):
    """What a million tokens cost, in dollars or in tokens of fresh input."""

    input: float = 1.0
    output: float = 5.0
    cached: float = 0.1
    written: float = 1.25
    written_long: float = 2.0
    is_money: bool = False
    over: int | None = None  # tokens read by a request that costs more, all of it
    times: float = 1.0  # and how much more
    output_times: float = 1.0

    def at(self, tokens: int) -> Price:
        """The price of a request that reads so many tokens."""
        if self.over is None or tokens <= self.over:
            return self
        names = ("input", "cached", "written", "written_long")
        larger = {name: self.times * getattr(self, name) for name in names}
        return self._replace(**larger, output=self.output_times * self.output, over=None)

    def cost_of(self, usage: Usage) -> float:
        """The cost of one call."""
        price = self.at(usage.read)
        paid = (
            usage.fresh * price.input,
            usage.cached * price.cached,
            usage.written * price.written,
            usage.written_long * price.written_long,
            usage.output * price.output,
        )
        return sum(paid) / 1_000_000

    def say(self, cost: float) -> str:
        """A cost in words."""
        if self.is_money:
            return f"${cost:,.2f}" if abs(cost) >= 1 else f"${cost:,.3f}"
        return f"{kilo(round(cost * 1_000_000))} input tokens' worth"


RELATIVE = Price()
"""The usual relations of a provider's prices, for a model whose price is not known."""


def price_of(model: str) -> Price:
    """The list price of a model; where it is not known, in tokens of fresh input."""
    found = find_listed_price(model)
    if found is None:
        return RELATIVE
    written = found.input if found.written is None else found.written
    return Price(
        input=found.input,
        output=found.output,
        cached=found.cached,
        written=written,
        written_long=written if found.written_long is None else found.written_long,
        is_money=True,
        over=found.over,
        times=found.times,
        output_times=found.times if found.output_times is None else found.output_times,
    )


def turns_to_pay(price: Price, before: int, after: int, kept: int, *, is_warm: bool) -> float:
    """The turns after which a compaction has paid for itself; none where the cache is cold.

    `before`, `after`: the tokens of a request; `kept`: those at its start that stay in the cache.
    """
    larger, smaller = price.at(before), price.at(after)
    saved_each = larger.cached * before - smaller.cached * after
    if saved_each <= 0:
        return float("inf")
    if not is_warm:
        return 0.0
    once = smaller.written * (after - kept) - larger.cached * (before - kept)
    return max(0.0, once / saved_each)
