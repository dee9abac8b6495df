"""What calls cost, and whether a compaction pays: fewer tokens are not always cheaper. The
ledger of a chat adds both up.

A provider keeps the beginning of a request in a cache, from which it is read again for a tenth or
less. A compaction changes that beginning: once, what stands after it is read and kept anew.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from mcp_compaction.core.wording import kilo, plural
from mcp_compaction.formats.usage import Usage
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


@dataclass(slots=True)
class Account:
    """What the calls of one conversation cost, and what its compactions did to that."""

    name: str
    price: Price
    model: str = ""
    total: Usage = field(default_factory=Usage)
    paid: float = 0.0
    would_pay: float = 0.0  # had all been sent as fitted
    would_be: Usage = field(default_factory=Usage)  # the total, had all been sent as fitted
    calls: int = 0
    refused: int = 0  # for their thinking, and sent again without it
    removed: Counter[str] = field(default_factory=Counter[str])  # thinking, by the provider
    last: Usage | None = None
    steps: list[CountedCompaction] = field(default_factory=list["CountedCompaction"])

    def add(self, usage: Usage, *, has_new_view: bool, share: float = 1.0) -> bool:
        """Add a call; one with a new view that is smaller is the first after a compaction.

        Gives whether it is. `share`: of the request's size that would have been sent, where it
        went out as it came.
        """
        self.total = self.total.plus(usage)
        self.calls += 1
        fitted = usage
        if share != 1.0:
            fitted = usage.scale(share)
            fitted = fitted.without_cache() if has_new_view else fitted
        self.would_be = self.would_be.plus(fitted)
        self.paid += self.price.cost_of(usage)
        self.would_pay += self.price.cost_of(fitted)
        is_first = has_new_view and self.last is not None and fitted.read < self.last.read
        if is_first and self.last is not None:
            self.steps.append(CountedCompaction(self.last, fitted))
        elif self.steps:
            self.steps[-1].later += 1
        self.last = fitted
        return is_first

    @property
    def lost(self) -> str:
        """What the provider left out since its beginning had changed, in words."""
        return _say_removed(Counter({k: n for k, n in self.removed.items() if "prefix" in k}))

    def lines(self) -> Iterator[str]:
        """The receipts in words."""
        total, price = self.total, self.price
        said = f"{plural(self.calls, 'call')}, {kilo(total.read)} tokens read"
        parts = f"{kilo(total.cached)} of them cached, {kilo(total.output)} written"
        cost = price.say(self.paid)
        yield f"{self.name} through the gateway: {said}, {parts}, {cost}"
        if self.would_be != total:
            cost = price.say(self.would_pay)
            yield f"  without --shadow: about {kilo(self.would_be.read)} tokens read, {cost}"
        if not price.is_money and self.model:
            yield f"  the price of {self.model} is not listed: it is told in fresh input"
        if self.refused:
            again = plural(self.refused, "request")
            yield f"  thinking: {again} refused for it, and sent again without it"
        if self.removed:
            yield f"  thinking: {_say_removed(self.removed)}"
        for number, step in enumerate(self.steps, 1):
            yield f"  compaction {number}: {step.line(price, has_cache=total.has_cache)}"


@dataclass(slots=True)
class CountedCompaction:
    """One compaction as the provider counted it: the call before it, the first after, the later."""

    before: Usage
    after: Usage
    later: int = 0

    def extra(self, price: Price, *, has_cache: bool) -> float:
        """What the first call after it cost more than with all that was there before it.

        `has_cache`: the provider would have read that from its cache.
        """
        would_be = _read_again(self.before.read, has_cache=has_cache)
        return price.cost_of(self.after._replace(output=0)) - price.cost_of(would_be)

    def saved_each(self, price: Price, *, has_cache: bool) -> float:
        """What each later call costs less, since less is read again."""
        before = _read_again(self.before.read, has_cache=has_cache)
        after = _read_again(self.after.read, has_cache=has_cache)
        return max(0.0, price.cost_of(before) - price.cost_of(after))

    def line(self, price: Price, *, has_cache: bool) -> str:
        """The receipt in words; `has_cache`: the provider has counted tokens in a cache."""
        sizes = f"{kilo(self.before.read)} -> {kilo(self.after.read)} tokens a request"
        extra = self.extra(price, has_cache=has_cache)
        each = self.saved_each(price, has_cache=has_cache)
        if each <= 0:
            return f"{sizes}: it saved nothing"
        cached = (
            f"cache read {kilo(self.before.cached)} -> {kilo(self.after.cached)}, written "
            f"{kilo(self.after.written + self.after.written_long)}"
            if has_cache
            else "the provider counted nothing in a cache"
        )
        balance = self.later * each - extra
        pays = f"pays after {extra / each:.1f} turns" if extra > 0 else "pays at once"
        verdict = (
            f"{price.say(balance)} saved after {plural(self.later, 'turn')}"
            if balance >= 0
            else f"it has not paid: {price.say(-balance)} lost after {plural(self.later, 'turn')}"
        )
        return f"{sizes}; {cached}; {pays}; {verdict}"


def _read_again(tokens: int, *, has_cache: bool) -> Usage:
    return Usage(cached=tokens) if has_cache else Usage(fresh=tokens)


def _say_removed(removed: Counter[str]) -> str:
    reasons = ", ".join(f"{why}: {number}" for why, number in sorted(removed.items()))
    return (
        f"the provider left out {plural(removed.total(), 'block')} ({reasons})" if removed else ""
    )


class GatewayLedger:
    """The accounts of all conversations of a gateway."""

    def __init__(self) -> None:
        self.accounts: dict[str, Account] = {}

    def account_of(self, name: str, model: str) -> Account:
        """The account of a conversation, opened where there is none."""
        return self.accounts.setdefault(name, Account(name, price_of(model), model))

    def lines(self) -> Iterator[str]:
        """The receipts in words."""
        for account in self.accounts.values():
            yield from account.lines()
