"""A tiny evaluation from end to end, and the page that shows it."""

from __future__ import annotations

import asyncio
import re
from html.parser import HTMLParser

import pytest

from mcp_compaction.counters.o200k import EstimateCounter
from mcp_compaction.evals.evaluation import WantedSessions, evaluate
from mcp_compaction.evals.report import make_document, make_page
from mcp_compaction.evals.results import PRODUCT, Report

TOLD: list[str] = []


@pytest.fixture(scope="module")
def report() -> Report:
    wanted = WantedSessions(seed=3, sessions=2, tokens=6_000, rounds=2)
    return asyncio.run(evaluate(wanted, EstimateCounter(), TOLD.append))


@pytest.mark.thorough
def test_every_strategy_is_measured_on_the_same_things(report: Report) -> None:
    asked = {(s.strategy, s.percent, s.kind): s.asked for s in report.scores}
    names = {strategy for strategy, _, _ in asked}
    assert {PRODUCT, "keep last", "TF-IDF", "novelty", "random"} <= names
    for strategy, percent, kind in asked:
        assert asked[strategy, percent, kind] == asked[PRODUCT, percent, kind]
    assert report.sessions == (("generated", 2),)


def test_the_baselines_keep_to_the_budget(report: Report) -> None:
    for cost in report.costs:
        if cost.strategy != PRODUCT:
            assert cost.tokens <= cost.of_tokens * cost.percent / 100
            assert cost.over_budget == 0


def test_the_rounds_are_counted_for_every_strategy(report: Report) -> None:
    assert {one.number for one in report.drift} == {1, 2}
    rules = [one for one in report.drift if (one.strategy, one.group) == (PRODUCT, "rules")]
    assert rules[1].asked > rules[0].asked


def test_programs_get_counts_and_shares(report: Report) -> None:
    found = make_document(report)
    scores = found["scores"]
    assert isinstance(scores, list)
    first = scores[0]
    assert isinstance(first, dict)
    assert first["closed_share"] == round(report.scores[0].closed_share, 4)


class Tags(HTMLParser):
    """Notes the tags of a page, and that each is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in ("meta", "i"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if tag != "i":
            assert self.open.pop() == tag


def test_the_page_stands_alone(report: Report) -> None:
    text = make_page(report)
    tags = Tags()
    tags.feed(text)
    assert tags.open == []
    names = {tag for tag, _ in tags.seen}
    assert "svg" in names
    assert names.isdisjoint({"script", "link", "img", "iframe", "image", "use", "a"})
    for _, attributes in tags.seen:
        assert attributes.keys().isdisjoint({"src", "href", "onclick", "onload", "xlink:href"})
    assert not re.search(r"@import|url\(|https?://", text)
    assert "prefers-color-scheme: dark" in text


def test_the_page_shows_kinds_ways_and_rounds(report: Report) -> None:
    text = make_page(report)
    for words in ("By kind: generated", "Beside the simpler ways", "2 rounds of drift", "novelty"):
        assert words in text


def test_the_page_says_where_a_view_came_out_too_large(report: Report) -> None:
    costs = tuple(
        cost.model_copy(update={"over_budget": int(cost.percent == 10), "faults": ("a <fault>",)})
        for cost in report.costs
    )
    text = make_page(report.model_copy(update={"costs": costs}))
    assert "to 10 % of its tokens; larger than that in 1 of 2 sessions" in text
    assert "to 25 % of its tokens</figcaption>" in text
    assert "a &lt;fault&gt;" in text
