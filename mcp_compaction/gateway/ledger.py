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
    total: Usage = field(default_factory=Usage)
    would_be: Usage = field(default_factory=Usage)  # the total, had all been sent as fitted
    calls: int = 0
    last: Usage | None = None
    steps: list[Step] = field(default_factory=list["Step"])

    def add(self, usage: Usage, *, has_new_view: bool, share: float = 1.0) -> None:
        """Add a call; one with a new view that is smaller is the first after a compaction.

        `share`: of the request's size that would have been sent, where it went out as it came.
        """
        self.total = self.total.plus(usage)
        self.calls += 1
        fitted = usage
        if share != 1.0:
            fitted = usage.scale(share)
            fitted = fitted.without_cache() if has_new_view else fitted
        self.would_be = self.would_be.plus(fitted)
        if has_new_view and self.last is not None and fitted.read < self.last.read:
            self.steps.append(Step(self.last, fitted))
        elif self.steps:
            self.steps[-1].later += 1
        self.last = fitted

    def lines(self) -> Iterator[str]:
        """The receipts in words."""
        total, price = self.total, self.price
        said = f"{plural(self.calls, 'call')}, {kilo(total.read)} tokens read"
        parts = f"{kilo(total.cached)} of them cached, {kilo(total.output)} written"
        cost = price.say(price.cost_of(total))
        yield f"{self.name} through the gateway: {said}, {parts}, {cost}"
        if self.would_be != total:
            cost = price.say(price.cost_of(self.would_be))
            yield f"  without --shadow: about {kilo(self.would_be.read)} tokens read, {cost}"
        for number, step in enumerate(self.steps, 1):
            yield f"  compaction {number}: {step.line(price)}"


@dataclass(slots=True)
class Step:
    """One compaction as the provider counted it: the call before it, the first after, the later."""

    before: Usage
    after: Usage
    later: int = 0

    def extra(self, price: Price) -> float:
        """What the first call after it cost more than it would have, with all before it cached."""
        would_be = Usage(cached=self.before.read, output=self.after.output)
        return price.cost_of(self.after) - price.cost_of(would_be)

    def saved_each(self, price: Price) -> float:
        """What each later call costs less, since less is read from the cache."""
        return price.cost_of(Usage(cached=max(0, self.before.read - self.after.read)))

    def line(self, price: Price) -> str:
        """The receipt in words."""
        sizes = f"{kilo(self.before.read)} -> {kilo(self.after.read)} tokens a request"
        extra, each = self.extra(price), self.saved_each(price)
        if each <= 0:
            return f"{sizes}: it saved nothing"
        cached = (
            f"cache read {kilo(self.before.cached)} -> {kilo(self.after.cached)}, written "
            f"{kilo(self.after.written + self.after.written_long)}"
        )
        balance = self.later * each - extra
        turns = max(0.0, extra) / each
        verdict = (
            f"{price.say(balance)} saved after {plural(self.later, 'turn')}"
            if balance >= 0
            else f"it has not paid: {price.say(-balance)} lost after {plural(self.later, 'turn')}"
        )
        return f"{sizes}; {cached}; pays after {turns:.1f} turns; {verdict}"


class Ledger:
    """The accounts of all conversations of a gateway."""

    def __init__(self) -> None:
        self.accounts: dict[str, Account] = {}

    def account_of(self, name: str, model: str) -> Account:
        """The account of a conversation, opened where there is none."""
        return self.accounts.setdefault(name, Account(name, price_of(model)))

    def lines(self) -> Iterator[str]:
        """The receipts in words."""
        for account in self.accounts.values():
            yield from account.lines()
