"""What the receipts in money say of a compaction, by what the provider counted."""

from __future__ import annotations

import pytest

from mcp_compaction.formats.usage import Usage
from mcp_compaction.gateway.money import Account, Price, price_of

PRICE = Price(3.0, 15.0, 0.3, 3.75, 6.0, is_money=True)


def _lines_of(*calls: Usage, share: float = 1.0) -> list[str]:
    """The receipts of calls; from the second on they show a new view, with a share of its size."""
    account = Account("w-1", PRICE)
    for number, usage in enumerate(calls):
        account.add(usage, has_new_view=number == 1, share=share if number else 1.0)
    return [*account.lines()]


def test_with_a_cache_what_is_written_anew_has_to_be_saved_first() -> None:
    first, later = Usage(written=22_000), Usage(cached=22_000)
    _, step = _lines_of(Usage(cached=44_000, written=2_000), first, later, later)
    assert step == (
        "  compaction 1: 46k -> 22k tokens a request; cache read 44k -> 0, written 22k; "
        "pays after 9.5 turns; it has not paid: $0.054 lost after 2 turns"
    )


def test_what_a_shadow_would_have_sent_is_reckoned_as_a_real_compaction_is_counted() -> None:
    before, whole = Usage(cached=44_000, written=2_000), Usage(cached=42_000, written=2_000)
    real = _lines_of(before, Usage(written=22_000))
    told = _lines_of(before, whole, share=0.5)
    assert told[1] == "  without --shadow: about 68k tokens read, $0.103"
    assert told[2:] == real[1:]


def test_a_request_over_a_step_of_its_price_costs_more_all_of_it() -> None:
    price = price_of("claude-haiku-5-5")
    assert price.cost_of(Usage(fresh=100_000, output=1_000)) == pytest.approx(0.0105)
    assert price.cost_of(Usage(fresh=100_001, output=1_000)) == pytest.approx(0.0525005)
    long = price_of("gpt-6.1-sol")
    assert long.cost_of(Usage(fresh=300_000, output=1_000)) == pytest.approx(1.215)
    account = Account("w-1", price)
    for _ in range(2):
        account.add(Usage(fresh=60_000), has_new_view=False)
    assert account.paid == pytest.approx(0.012)  # each is below the step
