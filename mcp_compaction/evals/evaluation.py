"""One whole evaluation: which sessions, which strategies, and everything that was found."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from mcp_compaction.core.wording import plural
from mcp_compaction.errors import CompactionError
from mcp_compaction.evals.baselines import BASELINES, find_peers
from mcp_compaction.evals.corpora import locomo, tau
from mcp_compaction.evals.handover.measure import measure_session
from mcp_compaction.evals.handover.sessions import Origin, read_session
from mcp_compaction.evals.material import FIELDS
from mcp_compaction.evals.referee import NOT_INSTALLED as NO_REFEREE
from mcp_compaction.evals.referee import ask_referee
from mcp_compaction.evals.results import HandoverCost, HandoverScore, Report, add_up
from mcp_compaction.evals.runner import (
    PERCENTS,
    AskedSummarizer,
    Bench,
    Tell,
    measure_case,
    measure_drift,
)
from mcp_compaction.evals.scenarios import make_sessions
from mcp_compaction.ports import TokenCounter

_REMEMBERED = 200_000  # counts; every strategy counts the same sentences again
_ON_HANDOVER = (
    "handover: each session was cut at 60 %, and each counts the same; shares are of what the "
    "agent's next 40 messages",
    "use and the first part had. Of fewer than 20 items the count is shown instead of a share.",
)


@dataclass(frozen=True, slots=True)
class WantedSessions:
    """The sessions and sizes to evaluate."""

    seed: int = 1
    sessions: int = 8
    tokens: int = 20_000
    rounds: int = 10
    percents: tuple[int, ...] = PERCENTS
    locomo: Path | None = None
    tau: Path | None = None
    origins: tuple[Origin, ...] = ()  # of sessions of one's own
    left: int = 0  # how many more there are
    limit: int | None = None  # of the sessions of each file
    referee: int = 0  # how many sessions of each kind the outside referee makes


async def evaluate(
    wanted: WantedSessions,
    counter: TokenCounter,
    tell: Tell,
    model: AskedSummarizer | None = None,
    draw_bar: Callable[[float], str] = lambda _: "",
) -> Report:
    """Measure all of it; where a model is given, also with its digests."""
    began = time.perf_counter()
    peers = find_peers()
    bench = Bench(
        counter=counter,
        count=lru_cache(_REMEMBERED)(counter.count),
        baselines={**BASELINES, **peers.strategies},
        percents=wanted.percents,
        tell=tell,
        draw_bar=draw_bar,
        model=model,
    )
    cases = (
        *make_sessions(wanted.seed, wanted.sessions, wanted.tokens),
        *(locomo(wanted.locomo)[: wanted.limit] if wanted.locomo else ()),
        *(tau(wanted.tau)[: wanted.limit] if wanted.tau else ()),
    )
    measured = [await measure_case(case, bench) for case in cases]
    works = min(wanted.sessions, len(FIELDS)) if wanted.rounds else 0
    drift = await measure_drift(wanted.seed, works, wanted.rounds, bench)
    refereed = await ask_referee(wanted.referee)
    real = await _measure_real(wanted, bench)
    return Report(
        counter=counter.id,
        seed=wanted.seed,
        sessions=tuple(Counter(case.corpus for case in cases).items()),
        scores=add_up(
            (score for one in measured for score in one.scores),
            *("corpus", "strategy", "percent", "kind"),
        ),
        costs=add_up(
            (cost for one in measured for cost in one.costs), "corpus", "strategy", "percent"
        ),
        drift=drift,
        detection=add_up((found for one in measured for found in one.detection), "wording"),
        referee=refereed,
        handover=real.scores,
        handover_costs=real.costs,
        notes=(
            *real.notes,
            *(peers.notes if cases else ()),
            *(() if refereed or not wanted.referee else (NO_REFEREE,)),
            *(model.account() if model is not None else ()),
        ),
        seconds=time.perf_counter() - began,
    )


class _Real(NamedTuple):
    """What was measured of sessions of one's own, and what is to be said of it."""

    scores: tuple[HandoverScore, ...]
    costs: tuple[HandoverCost, ...]
    notes: tuple[str, ...]


async def _measure_real(wanted: WantedSessions, bench: Bench) -> _Real:
    """The handovers of sessions of one's own; one that cannot be read does not stop the others."""
    scores: list[HandoverScore] = []
    costs: list[HandoverCost] = []
    short, notes = 0, list[str]()
    for number, origin in enumerate(wanted.origins, 1):
        bar = bench.draw_bar(100 * (number - 1) / len(wanted.origins))
        place = f"{bar}session {number} of {len(wanted.origins)}"
        try:
            session = read_session(origin)
        except CompactionError as error:
            notes.append(f"left out: {error}")
            continue
        if not session.later:
            short += 1
            continue
        more = await measure_session(
            session, bench.counter, bench.count, lambda text, p=place: bench.tell(f"{p}: {text}")
        )
        scores += more[0]
        costs += more[1]
    notes += [f"left out: {plural(short, 'session')} too short to be cut"] if short else []
    notes += (
        [f"left out: {plural(wanted.left, 'older session')}; see --limit"] if wanted.left else []
    )
    return _Real(
        add_up(scores, "source", "budget", "way", "measure"),
        add_up(costs, "source", "budget"),
        (*(_ON_HANDOVER if costs else ()), *notes),
    )
