"""An outside referee: the product as the compaction-conformance-kit calls it, and its score.

compaction-kit benchmark --spec mcp_compaction.evals.referee:Refereed --seeds 11-14 --rounds 2
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Sequence
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import anyio.to_thread

from mcp_compaction import compactor
from mcp_compaction.core.policy import Policy
from mcp_compaction.evals.results import PRODUCT, RefereeScore
from mcp_compaction.evals.subject import subject
from mcp_compaction.formats import read_incoming_text
from mcp_compaction.model import Precision

KIT = "compaction-conformance-kit"
NOT_INSTALLED = (
    f"the outside referee was not asked: {KIT} is not installed; pip install {KIT}, and run this "
    "again."
)
FIRST_SEED = 11  # the product was developed on the kit's seeds 1 to 6
_ROUNDS = 2
_ITS_OWN = "the kit's checklist"
_CHARS_OF_A_TOKEN = 4


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
