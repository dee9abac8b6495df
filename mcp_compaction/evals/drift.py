"""Ten rounds of a growing session: does what stands fade as it is compacted again and again?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from mcp_compaction.evals.corpora import line_of
from mcp_compaction.evals.measures import Context, PlainLine, Probe, survives
from mcp_compaction.evals.results import Round
from mcp_compaction.evals.runner import Bench, context_of, tokens_of
from mcp_compaction.evals.scenarios import MOST_EPISODES, Span, grow_session
from mcp_compaction.evals.subject import Subject, subject
from mcp_compaction.formats import read_incoming

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
    return _sum_rounds(found)


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
            for group, probes in _group_by_kind(span.probes).items():
                survived = sum([await _still_stands(group, p, shown.context, ours) for p in probes])
                found.append(
                    _make_round(name, number, group, (len(probes), survived), shown.tokens)
                )
    return found


def _measure_baseline(name: str, spans: Sequence[Span], goal: float, bench: Bench) -> list[Round]:
    found: list[Round] = []
    kept: list[PlainLine] = []
    for number, span in enumerate(spans, 1):
        lines = [*kept, *_lines_of(span)]
        kept = bench.baselines[name](lines, goal, bench.count)
        context = context_of(kept)
        tokens = tokens_of(kept, bench.count)
        for group, probes in _group_by_kind(span.probes).items():
            survived = sum(survives(probe, context) for probe in probes)
            found.append(_make_round(name, number, group, (len(probes), survived), tokens))
    return found


async def _still_stands(group: str, probe: Probe, view: Context, ours: Subject) -> bool:
    """Rules, tasks and decisions stand in the view; the rest may also come back."""
    if group == REST:
        return await ours.can_recover(probe, view)
    return survives(probe, view)


def _group_by_kind(probes: Sequence[Probe]) -> dict[str, list[Probe]]:
    groups: dict[str, list[Probe]] = {}
    for probe in probes:
        groups.setdefault(GROUPS.get(probe.kind, REST), []).append(probe)
    return groups


def _lines_of(span: Span) -> list[PlainLine]:
    return [line_of(message) for message in span.messages]


def _make_round(strategy: str, number: int, group: str, of: tuple[int, int], tokens: int) -> Round:
    asked, survived = of
    return Round(
        strategy=strategy, number=number, group=group, asked=asked, survived=survived, tokens=tokens
    )


def _sum_rounds(rounds: Sequence[Round]) -> tuple[Round, ...]:
    totals: dict[tuple[str, str, int], Round] = {}
    for one in rounds:
        key = (one.strategy, one.group, one.number)
        old = totals.get(key)
        if old is not None:
            one = one.model_copy(
                update={
                    "asked": old.asked + one.asked,
                    "survived": old.survived + one.survived,
                    "tokens": old.tokens + one.tokens,
                }
            )
        totals[key] = one
    return tuple(totals.values())
