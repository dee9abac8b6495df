"""One whole evaluation: which sessions, which strategies, and everything that was found; and an
outside referee's score of the product, as the compaction-conformance-kit calls it.

compaction-kit benchmark --spec mcp_compaction.evals.evaluation:Refereed --seeds 11-14 --rounds 2
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import anyio.to_thread

from mcp_compaction import compactor
from mcp_compaction.core.policy import Policy
from mcp_compaction.core.wording import plural
from mcp_compaction.errors import CompactionError
from mcp_compaction.evals.baselines import BASELINES, find_peers
from mcp_compaction.evals.corpora import FIELDS, locomo, tau
from mcp_compaction.evals.handover import measure_session
from mcp_compaction.evals.handover_sessions import Origin, read_session
from mcp_compaction.evals.results import (
    PRODUCT,
    HandoverCost,
    HandoverScore,
    RefereeScore,
    Report,
    add_up,
)
from mcp_compaction.evals.runner import (
    PERCENTS,
    AskedSummarizer,
    Bench,
    Tell,
    measure_case,
    measure_drift,
)
from mcp_compaction.evals.scenarios import make_sessions
from mcp_compaction.evals.subject import subject
from mcp_compaction.formats import read_incoming_text
from mcp_compaction.model import Precision
from mcp_compaction.ports import TokenCounter

KIT = "compaction-conformance-kit"
NOT_INSTALLED = (
    f"the outside referee was not asked: {KIT} is not installed; pip install {KIT}, and run this "
    "again."
)
FIRST_SEED = 11  # the product was developed on the kit's seeds 1 to 6
_ROUNDS = 2
_ITS_OWN = "the kit's checklist"
_CHARS_OF_A_TOKEN = 4

_REMEMBERED = 200_000  # counts; every strategy counts the same sentences again
_ON_HANDOVER = (
    "handover: each session was cut at 60 %, and each counts the same; shares are of what the "
    "agent's next 40 messages",
    "use and the first part had. Of fewer than 20 items the count is shown instead of a share.",
)


class Refereed:
    """The product as what the kit calls a compactor: turns in, the text of the view out."""

    name = PRODUCT

    def compact(
        self, turns: Sequence[Any], round_num: int = 1, budget_chars: int | None = None
    ) -> Any:
        """The turns in so many characters; what fits already stays as it is."""
        text = "\n".join(turn.text for turn in turns)
        if budget_chars is not None and len(text) > budget_chars:
            text = asyncio.run(_compress(turns, budget_chars))
        kit = import_module("compaction_kit")
        return kit.CompactedContext(text=text, compactor_name=self.name, round_num=round_num)


class _Characters:
    """A counter for budgets in characters."""

    @property
    def id(self) -> str:
        """The name of what is counted."""
        return "characters"

    @property
    def precision(self) -> Precision:
        """Always exact."""
        return "exact"

    def count(self, text: str) -> int:
        """A token for every few characters."""
        return -(-len(text) // _CHARS_OF_A_TOKEN)


async def ask_referee(seeds: int) -> tuple[RefereeScore, ...]:
    """The kit's score of the product and of its own checklist, over so many of its seeds; none
    where the kit is not installed."""
    if not seeds or not is_installed():
        return ()
    kit = import_module("compaction_kit")
    run = partial(
        kit.run_budget_benchmark,
        {PRODUCT: Refereed, _ITS_OWN: kit.SemanticChecklistCompactor},
        seeds=range(FIRST_SEED, FIRST_SEED + seeds),
        rounds=_ROUNDS,
    )
    entries: Iterable[Any] = (await anyio.to_thread.run_sync(run))["entries"]
    return tuple(
        RefereeScore(
            strategy=entry["compactor"],
            percent=round(100 * entry["budget_fraction"]),
            survived=entry["randomized"]["overall_final_survival"],
            resolved=entry["semantic"]["resolved_rate"],
            told_apart=entry["semantic"]["distinct_pair_rate"],
            is_within_budget=entry["budget_compliant"],
        )
        for entry in entries
    )


def is_installed() -> bool:
    """Whether the kit can be asked."""
    return find_spec("compaction_kit") is not None


async def _compress(turns: Sequence[Any], chars: int) -> str:
    said = [json.dumps({"role": turn.role, "content": turn.text}) for turn in turns]
    whole = sum(len(turn.text) for turn in turns)
    counter = _Characters()
    # What the kit counts is the text alone, without what a provider adds to each message.
    policy = Policy(overhead_per_message=0)
    async with subject(None, counter, policy=policy) as session:
        await session.record(read_incoming_text("\n".join(said)))
        await session.set_window(whole // _CHARS_OF_A_TOKEN)
        shown = await session.compress(100 * chars / whole)
        text = "\n".join(shown.context.lines)
        if len(text) <= chars:
            return text
        # Rules stand in every view, whatever its size; records keep to theirs.
        return await compactor.read_records(session.workspace, session.info, max_chars=chars)


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
            *(() if refereed or not wanted.referee else (NOT_INSTALLED,)),
            *(model.account() if model is not None else ()),
        ),
        seconds=time.perf_counter() - began,
    )


class _Real(NamedTuple):
    """The scores of sessions of one's own, and the notes on them."""

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
