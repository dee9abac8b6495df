"""Runs the evaluation: the product and the baselines over every case, at every budget, and over a
session that grows by rounds."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from types import MappingProxyType

from mcp_compaction.core.compaction.receipt import spent_line
from mcp_compaction.core.tokens import CountTokens
from mcp_compaction.evals.baselines import Strategy, tokens_of
from mcp_compaction.evals.corpora import (
    Context,
    EvalCase,
    PlainLine,
    Probe,
    comes_back,
    line_of,
    survives,
)
from mcp_compaction.evals.results import (
    PRODUCT,
    Detection,
    Round,
    Score,
    StrategyCost,
    add_up,
    is_product,
    name_with_model,
)
from mcp_compaction.evals.scenarios import CORPUS, MOST_EPISODES, Span, grow_session
from mcp_compaction.evals.subject import Noticed, Shown, Subject, subject
from mcp_compaction.formats import read_incoming
from mcp_compaction.model import Draft, ModelCall, Spent, SummaryRequest
from mcp_compaction.ports import Summarizer, TokenCounter

PERCENTS = (50, 25, 10)
_MOST_REASONS = 3  # of falls that are told

Tell = Callable[[str], None]


class AskedSummarizer:
    """A summarizer under test: what it took, and how often another had to step in for it."""

    def __init__(self, summarizer: Summarizer, model: str) -> None:
        self._summarizer = summarizer
        self.model = model
        self._requests = 0
        self._calls: list[ModelCall] = []
        self._falls: Counter[str] = Counter()

    @property
    def name(self) -> str:
        """The summarizer's name on a receipt."""
        return self._summarizer.name

    async def summarize(self, request: SummaryRequest) -> Draft:
        """The draft, with its calls and its reason for a fall noted."""
        self._requests += 1
        draft = await self._summarizer.summarize(request)
        self._calls += draft.calls
        if draft.note:
            self._falls[draft.note] += 1
        return draft

    def account(self) -> Iterator[str]:
        """The calls that were made, and the reasons why digests were extracted instead."""
        spent = Spent(
            calls=len(self._calls),
            input_tokens=sum(call.input_tokens for call in self._calls),
            output_tokens=sum(call.output_tokens for call in self._calls),
            cached_tokens=sum(call.cached_tokens for call in self._calls),
            cost=sum(call.cost or 0.0 for call in self._calls),
            seconds=sum(call.seconds for call in self._calls),
            failed=sum(bool(call.failed) for call in self._calls),
        )
        took = spent_line(spent).removeprefix("system: ")
        yield f"{self.model}, asked for {self._requests:,} digests: {took}"
        for reason, times in self._falls.most_common(_MOST_REASONS):
            yield f"{self.model}, {times:,} times: {reason}"


@dataclass(frozen=True, slots=True)
class Bench:
    """The parts that stay the same throughout an evaluation."""

    counter: TokenCounter  # the product's
    count: CountTokens  # the same, remembering what it counted
    baselines: Mapping[str, Strategy]
    percents: tuple[int, ...] = PERCENTS
    tell: Tell = lambda _: None
    draw_bar: Callable[[float], str] = lambda _: ""  # how far it is, of a hundred
    model: AskedSummarizer | None = None  # who else is to write the product's digests

    @property
    def products(self) -> Mapping[str, Summarizer | None]:
        """The product by itself and, where one is asked, with a model."""
        alone: dict[str, Summarizer | None] = {PRODUCT: None}
        return (
            alone
            if self.model is None
            else {**alone, name_with_model(self.model.model): self.model}
        )


@dataclass(frozen=True, slots=True)
class Measured:
    """One case under every strategy and budget."""

    scores: tuple[Score, ...]
    costs: tuple[StrategyCost, ...]
    detection: tuple[Detection, ...]


async def measure_case(case: EvalCase, bench: Bench) -> Measured:
    """Every strategy at every budget, closed-book and with one recall."""
    total = tokens_of(case.lines, bench.count)
    scores: list[Score] = []
    costs: list[StrategyCost] = []
    async with subject(case, bench.counter) as untouched:
        noticed = await untouched.read_noticed()
        kinds = [_kind_of(probe, noticed, case.pins) for probe in case.probes]
        for percent in bench.percents:
            for name, strategy in bench.baselines.items():
                bench.tell(f"{case.corpus} {case.name}: {name} to {percent} %")
                began = time.perf_counter()
                kept = strategy(case.lines, total * percent / 100, bench.count)
                seconds = time.perf_counter() - began
                shown = Shown(context_of(kept), tokens_of(kept, bench.count), seconds, ())
                scores += await _scores_of(case, kinds, (name, percent), shown.context, untouched)
                costs.append(_cost_of(case, name, percent, total, shown))
    for percent, (name, summarizer) in product(bench.percents, bench.products.items()):
        bench.tell(f"{case.corpus} {case.name}: {name} to {percent} %")
        async with subject(case, bench.counter, summarizer) as ours:
            await ours.set_window(total)
            shown = await ours.compress(percent)
            scores += await _scores_of(case, kinds, (name, percent), shown.context, ours)
            costs.append(_cost_of(case, name, percent, total, shown))
    return Measured(tuple(scores), tuple(costs), tuple(_detect(case, noticed)))


def context_of(lines: Sequence[PlainLine]) -> Context:
    """The context that a model would read of these lines."""
    return Context(tuple(part for line in lines for part in line.text.splitlines()))


def _kind_of(probe: Probe, noticed: Noticed, pins: Sequence[str]) -> str:
    """The kind of a probe; of rules and tasks, whether the product noticed them."""
    if probe.kind not in ("rule", "task"):
        return probe.kind
    if probe.needle in pins:
        return f"{probe.kind}, pinned"
    return f"{probe.kind}, {'detected' if noticed.holds(probe.needle) else 'undetected'}"


def _detect(case: EvalCase, noticed: Noticed) -> Iterable[Detection]:
    """The planted rules that were noticed, and the messages that were flagged wrongly."""
    if case.corpus != CORPUS:
        return
    rules = [probe for probe in case.probes if probe.kind == "rule"]
    for wording, is_apart in (("common", False), ("apart", True)):
        stated = [probe for probe in rules if probe.is_apart == is_apart]
        hits = sum(noticed.offers(probe.needle) for probe in stated)
        yield Detection(wording=wording, stated=len(stated), noticed=hits)
    sources = {probe.source for probe in rules}
    raws = enumerate(message.raw for message in case.came.messages)
    asked = {n for n, r in raws if r.startswith('{"role":"user"') and "tool_result" not in r}
    idle = asked - sources
    yield Detection(wording="none", stated=len(idle), noticed=len(idle & noticed.flagged))


async def _scores_of(
    case: EvalCase, kinds: Sequence[str], way: tuple[str, int], view: Context, archive: Subject
) -> list[Score]:
    tallies: dict[str, list[int]] = {}
    strategy, percent = way
    for probe, kind in zip(case.probes, kinds, strict=True):
        tally = tallies.setdefault(kind, [0, 0, 0, 0])
        closed = survives(probe, view)
        recalled = closed or comes_back(probe, [await archive.recall(q) for q in probe.questions])
        tally[0] += 1
        tally[1] += closed
        tally[2] += recalled
        if is_product(strategy) and case.corpus == CORPUS:
            tally[3] += recalled or await archive.can_recover(probe, view)
    return [
        Score(
            corpus=case.corpus,
            strategy=strategy,
            percent=percent,
            kind=kind,
            asked=asked,
            closed_book=closed,
            with_recall=recalled,
            recoverable=found if is_product(strategy) and case.corpus == CORPUS else None,
        )
        for kind, (asked, closed, recalled, found) in tallies.items()
    ]


def _cost_of(case: EvalCase, strategy: str, percent: int, total: int, shown: Shown) -> StrategyCost:
    return StrategyCost(
        corpus=case.corpus,
        strategy=strategy,
        percent=percent,
        sessions=1,
        tokens=shown.tokens,
        of_tokens=total,
        seconds=shown.seconds,
        over_budget=int(shown.tokens > total * percent / 100),
        faults=tuple(f"{case.name}: {fault}" for fault in shown.faults),
    )


REST = "everything else"
GROUPS: Mapping[str, str] = MappingProxyType(
    {"rule": "rules", "task": "open tasks", "decision": "decisions", "reversal": "decisions"}
)
_GOAL = 1.0  # of a span: a round leaves as much as it brought
_EPISODES = 2  # in each span
MOST_ROUNDS = MOST_EPISODES // _EPISODES


async def measure_drift(seed: int, works: int, rounds: int, bench: Bench) -> tuple[Round, ...]:
    """The shares that stand after each round of one growing session for each kind of work."""
    found: list[Round] = []
    for work in range(works):
        spans = tuple(grow_session(seed, work, rounds, _EPISODES))
        sizes = [tokens_of(_lines_of(span), bench.count) for span in spans]
        goal = _GOAL * sum(sizes) / len(sizes)
        for name in bench.baselines:
            found += _measure_baseline(name, spans, goal, bench)
        for name in bench.products:
            found += await _measure_product((work, name), spans, goal, bench)
    return add_up(found, "strategy", "group", "number")


async def _measure_product(
    of: tuple[int, str], spans: Sequence[Span], goal: float, bench: Bench
) -> list[Round]:
    found: list[Round] = []
    work, name = of
    async with subject(None, bench.counter, bench.products[name]) as ours:
        # The window holds what the last round left, and one more span.
        window = goal + goal / _GOAL
        await ours.set_window(round(window))
        for number, span in enumerate(spans, 1):
            bench.tell(f"drift {work + 1}: round {number} of {len(spans)}")
            await ours.record(read_incoming([*span.messages]))
            shown = await ours.compress(100 * goal / window)
            # Rules, tasks and decisions stand in the view; the rest may also come back.
            stood = [
                survives(probe, shown.context)
                if probe.kind in GROUPS
                else await ours.can_recover(probe, shown.context)
                for probe in span.probes
            ]
            found += _rounds_of((name, number), span.probes, stood, shown.tokens)
    return found


def _measure_baseline(name: str, spans: Sequence[Span], goal: float, bench: Bench) -> list[Round]:
    found: list[Round] = []
    kept: list[PlainLine] = []
    for number, span in enumerate(spans, 1):
        kept = bench.baselines[name]([*kept, *_lines_of(span)], goal, bench.count)
        context = context_of(kept)
        stood = [survives(probe, context) for probe in span.probes]
        found += _rounds_of((name, number), span.probes, stood, tokens_of(kept, bench.count))
    return found


def _rounds_of(
    way: tuple[str, int], probes: Sequence[Probe], stood: Sequence[bool], tokens: int
) -> Iterator[Round]:
    groups: dict[str, list[bool]] = {}
    for probe, stands in zip(probes, stood, strict=True):
        groups.setdefault(GROUPS.get(probe.kind, REST), []).append(stands)
    for group, found in groups.items():
        yield Round(
            strategy=way[0],
            number=way[1],
            group=group,
            asked=len(found),
            survived=sum(found),
            tokens=tokens,
        )


def _lines_of(span: Span) -> list[PlainLine]:
    return [line_of(message) for message in span.messages]
