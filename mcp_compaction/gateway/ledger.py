"""The receipts in money: what a provider counted before and after each compaction."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from mcp_compaction.core.wording import kilo, plural
from mcp_compaction.gateway.money import Price, price_of
from mcp_compaction.gateway.usage import Usage


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
