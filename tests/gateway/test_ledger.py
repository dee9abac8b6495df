"""What the receipts in money say of a compaction, by what the provider counted."""

from __future__ import annotations

import pytest

from mcp_compaction.gateway.money import Account, Price, Usage, price_of, turns_to_pay

PRICE = Price(3.0, 15.0, 0.3, 3.75, 6.0, is_money=True)


def _lines_of(*calls: Usage, share: float = 1.0) -> list[str]:
    """The receipts of calls; from the second on they show a new view, with a share of its size."""
    account = Account("w-1", PRICE)
    for number, usage in enumerate(calls):
        account.add(usage, has_new_view=number == 1, share=share if number else 1.0)
    return [*account.lines()]


def test_without_a_cache_each_call_saves_what_is_not_read_from_the_first_on() -> None:
    small = Usage(fresh=22_000, output=500)
    _, step = _lines_of(Usage(fresh=46_000, output=20), small, small, small)
    assert step == (
        "  compaction 1: 46k -> 22k tokens a request; the provider counted nothing in a cache; "
        "pays at once; $0.216 saved after 2 turns"
    )


def test_with_a_cache_what_is_written_anew_has_to_be_saved_first() -> None:
    first, later = Usage(written=22_000), Usage(cached=22_000)
    _, step = _lines_of(Usage(cached=44_000, written=2_000), first, later, later)
    assert step == (
        "  compaction 1: 46k -> 22k tokens a request; cache read 44k -> 0, written 22k; "
        "pays after 9.5 turns; it has not paid: $0.054 lost after 2 turns"
    )


def test_a_cache_that_was_used_in_other_calls_is_one_that_the_compaction_has_emptied() -> None:
    _, step = _lines_of(Usage(fresh=46_000), Usage(fresh=22_000), Usage(cached=22_000))
    assert "cache read 0 -> 0" in step
    assert "it has not paid" in step


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


def test_with_cache_reads_at_a_twentieth_a_rewrite_pays_after_about_five_turns() -> None:
    turns = turns_to_pay(price_of("claude-opus-5-5"), 150_000, 35_000, 0, is_warm=True)
    assert 4.5 < turns < 7
    steep = turns_to_pay(price_of("claude-haiku-5-5"), 120_000, 30_000, 0, is_warm=True)
    assert steep == 0  # below the step all of it is cheaper at once


def test_a_model_without_a_listed_price_is_told_as_such() -> None:
    account = Account("w-1", price_of("next-1"), "next-1")
    account.add(Usage(fresh=60_000), has_new_view=False)
    assert [*account.lines()][1].startswith("  the price of next-1 is not listed")
