"""A weak real model, through the real summarizers: what it writes costs nothing that mattered."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx2
import pytest

from mcp_compaction.compactor import Compactor, Parts
from mcp_compaction.core.digest import render_digest
from mcp_compaction.core.policy import Policy
from mcp_compaction.counters.estimate import EstimateCounter
from mcp_compaction.evals.corpora import Case
from mcp_compaction.evals.measures import Context, Probe, survives
from mcp_compaction.evals.scenarios import sessions
from mcp_compaction.model import Ask, Compaction, Receipt
from mcp_compaction.ports import SessionKey, Summarizer
from mcp_compaction.store.sqlite import open_store
from mcp_compaction.summarizers.anthropic_api import AnthropicBackend
from mcp_compaction.summarizers.calling import Backend, CallingSummarizer, Terms
from mcp_compaction.summarizers.endpoint import Endpoint
from mcp_compaction.summarizers.extractive import ExtractiveSummarizer
from mcp_compaction.summarizers.openai_api import OpenAiBackend
from tests.models.real_model import MODEL, RealModel, serve
from tests.sessions import NOW

pytestmark = pytest.mark.real_model

WINDOW = Policy(window_tokens=4_000)
SECONDS = 240.0  # for a model on one core that others want too
# It ignores the headings: a grammar makes it write under them, so that its inventions are read.
UNDER_HEADINGS = ("--grammar", str(Path(__file__).parent / "smollm" / "digest.gbnf"))


@pytest.fixture(scope="module")
def small() -> Iterator[RealModel]:
    """A context that a span hardly fits into, and no grammar."""
    with serve() as model:
        yield model


class _Still:
    """A clock that stands."""

    def now(self) -> datetime:
        return NOW


@dataclass(frozen=True, slots=True)
class Result:
    """What is left of a session, and what is said about it."""

    receipt: Receipt
    digest: str
    survivors: frozenset[Probe]
    calls: int
    read: int  # tokens, as the server counted them


def _asking(model: RealModel, dialect: str) -> Summarizer:
    base = model.url if dialect == "messages" else f"{model.url}/v1"
    endpoint = Endpoint(base, MODEL, environment_key=lambda: None)
    backend: Backend = (AnthropicBackend if dialect == "messages" else OpenAiBackend)(endpoint)
    terms = Terms(model.context, timeout_seconds=SECONDS, total_seconds=SECONDS)
    return CallingSummarizer(backend, terms, EstimateCounter().count)


def _case() -> Case:
    return sessions(7, 1, WINDOW.window_tokens or 0)[0]


async def _compacted(case: Case, summarizer: Summarizer, folder: Path) -> Result:
    store = await open_store(folder / f"{summarizer.name}.db")
    parts = Parts(
        store=store,
        summarizer=summarizer,
        counter=EstimateCounter(),
        clock=_Still(),
        policy=WINDOW,
    )
    compactor = Compactor(parts)
    try:
        info, _ = await compactor.open(SessionKey(project="/p", name=case.name))
        await compactor.record(info, case.came)
        for text in case.pins:
            await compactor.pin(info, text, by="user")
        outcome = await compactor.compress(info, Ask(reason="test", force=True))
        assert isinstance(outcome, Compaction), outcome
        shown: Any = await compactor.context(info)
        spent = await store.spent(info.id)
    finally:
        await compactor.close()
    texts = Context(tuple(line for text in _texts(shown) for line in text.splitlines()))
    return Result(
        receipt=outcome.receipt,
        digest="\n".join(render_digest(digest) for digest in outcome.digests),
        survivors=frozenset(probe for probe in case.probes if survives(probe, texts)),
        calls=spent.calls,
        read=spent.input_tokens,
    )


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inside in value.values() if isinstance(value, dict) else value:  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
            yield from _texts(inside)


def _both(folder: Path, model: RealModel, dialect: str) -> tuple[Result, Result]:
    case = _case()
    alone = asyncio.run(_compacted(case, ExtractiveSummarizer(), folder))
    return alone, asyncio.run(_compacted(case, _asking(model, dialect), folder))


def _tally(receipt: Receipt, name: str) -> tuple[int, int]:
    found = next(tally for tally in receipt.tallies if tally.name == name)
    return found.in_view, found.total


def _check_nothing_is_lost(alone: Result, asked: Result) -> None:
    assert {"rule", "task", "id", "path", "number"} <= {probe.kind for probe in alone.survivors}
    assert alone.survivors <= asked.survivors
    assert [tally.lost for tally in asked.receipt.tallies if tally.lost] == []
    assert _tally(asked.receipt, "rules") == _tally(alone.receipt, "rules")
    assert _tally(asked.receipt, "open tasks") == _tally(alone.receipt, "open tasks")


def test_prose_of_a_weak_model_is_not_taken_for_a_digest_and_the_receipt_says_so(
    small: RealModel, tmp_path: Path
) -> None:
    alone, asked = _both(tmp_path, small, "chat")
    print(asked.receipt.notes, asked.calls, asked.read)
    _check_nothing_is_lost(alone, asked)
    assert asked.calls
    assert asked.read


def test_inventions_of_a_weak_model_cost_no_rule_no_open_task_and_no_identifier(
    tmp_path: Path,
) -> None:
    with serve("--context", "4096", *UNDER_HEADINGS) as model:
        alone, asked = _both(tmp_path, model, "messages")
    print(asked.receipt.notes, asked.receipt.author, asked.calls, asked.read, asked.digest)
    _check_nothing_is_lost(alone, asked)
