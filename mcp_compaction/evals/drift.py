"""Ten rounds of a growing session: does what stands fade as it is compacted again and again?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from mcp_compaction.evals.baselines import tokens_of
from mcp_compaction.evals.corpora import line_of
from mcp_compaction.evals.measures import PlainLine, Probe, survives
from mcp_compaction.evals.results import Round, add_up
from mcp_compaction.evals.runner import Bench, context_of
from mcp_compaction.evals.scenarios import MOST_EPISODES, Span, grow_session
from mcp_compaction.evals.subject import subject
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
