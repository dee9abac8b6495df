"""A weak real model, through the real summarizers: what it writes costs nothing that mattered."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from mcp_compaction import compactor
from mcp_compaction.audit.auditing import WantedAudit
from mcp_compaction.audit.questions import cases_of
from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.core.digest.render import render_digest
from mcp_compaction.core.log.identifiers import find_identifiers
from mcp_compaction.core.policy import Policy
from mcp_compaction.counters.o200k import EstimateCounter
from mcp_compaction.evals.reader import Reader, read_cases
from mcp_compaction.formats import read_incoming
from mcp_compaction.model import Ask, Compaction, JsonObject, Receipt
from mcp_compaction.ports import SessionKey, Summarizer
from mcp_compaction.store.sqlite import open_store
from mcp_compaction.summarizers.anthropic_api import AnthropicBackend
from mcp_compaction.summarizers.calling import Backend, CallingSummarizer, Terms
from mcp_compaction.summarizers.endpoint import Endpoint
from mcp_compaction.summarizers.extractive import ExtractiveSummarizer
from mcp_compaction.summarizers.openai_api import OpenAiBackend
from tests.audit.test_questions import SUMMARY, chat_with
from tests.models.real_model import MODEL, RealModel, serve
from tests.sessions import NOW

pytestmark = [pytest.mark.anyio, pytest.mark.real_model]

WINDOW = Policy(window_tokens=2_600, preserve_recent_turns=1)
SECONDS = 240.0  # for a model on one core that others want too
# It ignores the headings: a grammar makes it write under them, so that its inventions are read.
UNDER_HEADINGS = ("--grammar", str(Path(__file__).parent / "smollm" / "digest.gbnf"))

RULE = "Never run migrations against prod; only staging."
TASK = "backfill orders.note for SHOP-4711"
NAMED = ("db/0042_orders_note.sql", "req_8f3a91c2d7", "9f31c07be4")


class _Still:
    """A clock that stands."""

    def now(self) -> datetime:
        return NOW


@dataclass(frozen=True, slots=True)
class Result:
    """What is left of a session, and what is said about it."""

    receipt: Receipt
    digest: str
    context: str
    calls: int
    read: int  # tokens, as the server counted them


def _asking(model: RealModel, dialect: str, window: int = 2_048) -> Summarizer:
    base = model.url if dialect == "messages" else f"{model.url}/v1"
    endpoint = Endpoint(base, MODEL, environment_key=lambda: None)
    backend: Backend = (AnthropicBackend if dialect == "messages" else OpenAiBackend)(endpoint)
    terms = Terms(window, timeout_seconds=SECONDS, total_seconds=SECONDS)
    return CallingSummarizer(backend, terms, EstimateCounter().count)


def _step(number: int, tool: str, given: str, result: str) -> list[JsonObject]:
    call: JsonObject = {
        "type": "tool_use",
        "id": f"t{number}",
        "name": tool,
        "input": {"path" if tool == "Read" else "command": given},
    }
    answer: JsonObject = {"type": "tool_result", "tool_use_id": f"t{number}", "content": result}
    return [{"role": "assistant", "content": [call]}, {"role": "user", "content": [answer]}]


def _session() -> list[JsonObject]:
    """Small enough for one core: a model is asked about less than a thousand tokens."""
    path, request, commit = NAMED
    lines = "\n".join(f"-- {n}: column note_{n} text, null" for n in range(12))
    return [
        {"role": "user", "content": "Review the migrations of the shop, please."},
        *_step(1, "Read", path, f"ALTER TABLE orders ADD COLUMN note text;\n{lines}"),
        *_step(2, "Bash", "make migrate ENV=staging", f"ERROR: lock timeout, {request}\n{lines}"),
        {"role": "user", "content": f"{RULE} TODO: {TASK}."},
        *_step(3, "Bash", "git commit -am note", f"[main {commit}] add the note\n{lines}"),
        {"role": "assistant", "content": f"Staging is done: {path} went through as {commit}."},
        *_step(4, "Bash", "make test", f"131 passed in 8.25s\n{lines}"),
        {"role": "user", "content": "Good. What is left to do?"},
        {"role": "assistant", "content": "The backfill."},
    ]


async def _compacted(summarizer: Summarizer, folder: Path) -> Result:
    store = await open_store(folder / f"{summarizer.name}.db")
    work = Workspace(
        store=store,
        summarizer=summarizer,
        counter=EstimateCounter(),
        clock=_Still(),
        policy=WINDOW,
    )
    try:
        info, _ = await compactor.open_session(work, SessionKey(project="/p", name="migrations"))
        await compactor.record(work, info, read_incoming([*_session()]))
        outcome = await compactor.compress(work, info, Ask(reason="test", force=True))
        assert isinstance(outcome, Compaction), outcome
        shown: Any = await compactor.context(work, info)
        spent = await store.spent(info.id)
    finally:
        await work.store.close()
    return Result(
        receipt=outcome.receipt,
        digest="\n".join(render_digest(digest) for digest in outcome.digests),
        context="\n".join(_texts(shown)),
        calls=spent.calls,
        read=spent.input_tokens,
    )


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inside in value.values() if isinstance(value, dict) else value:  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
            yield from _texts(inside)


async def _both(folder: Path, asking: Summarizer) -> tuple[Result, Result]:
    alone = await _compacted(ExtractiveSummarizer(), folder)
    return alone, await _compacted(asking, folder)


def _items(digest: str) -> set[str]:
    return {line for line in digest.splitlines() if line.startswith("- ")}


def _identifiers(text: str) -> set[str]:
    return {finding.text for finding in find_identifiers(text)}


def _check_nothing_is_lost(alone: Result, asked: Result) -> None:
    for text in (RULE, TASK, *NAMED):
        assert text in alone.context
        assert text in asked.context
    assert _identifiers(alone.context) <= _identifiers(asked.context)
    assert _items(alone.digest) <= _items(asked.digest)
    tallies = {tally.kind: tally for tally in asked.receipt.tallies}
    assert [tally for tally in tallies.values() if tally.lost] == []
    assert tallies["rules"].retained == tallies["rules"].total > 0
    assert asked.calls > 0 < asked.read


async def test_prose_instead_of_headings_is_not_taken_in_and_the_receipt_says_so(
    tmp_path: Path,
) -> None:
    # The context ends the model's talk soon after the prompt, which takes 1,300 tokens of it.
    with serve("--context", "1536") as model:
        alone, asked = await _both(tmp_path, _asking(model, "chat"))
    _check_nothing_is_lost(alone, asked)
    assert asked.digest == alone.digest
    assert asked.receipt.author == "extractive"
    assert "prose instead of the headings" in " ".join(asked.receipt.notes)


async def test_inventions_of_a_weak_model_cost_no_rule_no_open_task_and_no_identifier(
    tmp_path: Path,
) -> None:
    with serve(*UNDER_HEADINGS) as model:
        alone, asked = await _both(tmp_path, _asking(model, "messages"))
    _check_nothing_is_lost(alone, asked)
    # It was heard; what of it is doubted, perhaps all, differs from machine to machine.
    is_refused = "nothing in it could be believed" in " ".join(asked.receipt.notes)
    assert asked.receipt.author == ("extractive" if is_refused else MODEL)
    assert (_items(asked.digest) > _items(alone.digest)) is not is_refused


async def test_a_server_that_cuts_a_prompt_silently_is_found_out(tmp_path: Path) -> None:
    with serve("--context", "384", "--cut-silently") as model:
        alone, asked = await _both(tmp_path, _asking(model, "messages", window=4_096))
    _check_nothing_is_lost(alone, asked)
    assert asked.digest == alone.digest
    assert "its window is smaller than" in " ".join(asked.receipt.notes)


async def test_a_prompt_over_the_context_is_refused_and_the_receipt_says_so(tmp_path: Path) -> None:
    with serve("--context", "384") as model:
        asked = await _compacted(_asking(model, "chat", window=4_096), tmp_path)
    assert "HTTP 400" in " ".join(asked.receipt.notes)
    assert asked.receipt.author == "extractive"


async def test_it_reads_views_and_is_graded(tmp_path: Path) -> None:
    chat_with(tmp_path, SUMMARY)
    wanted = WantedAudit(sources=(str(tmp_path),))
    cases = cases_of(wanted, {"HOME": "/nowhere"}, lambda _p, _w: None, EstimateCounter())
    with serve() as model:
        endpoint = Endpoint(f"{model.url}/v1", MODEL, environment_key=lambda: None)
        reader = Reader(OpenAiBackend(endpoint), EstimateCounter().count, seconds=SECONDS)
        report = await read_cases(cases, reader, lambda _p, _w: None)
    assert report.stopped == ""
    assert {one.kind for one in report.whole} == {"next edit", "refusal", "last commit"}
    assert all(said.read > 0 and said.wrote > 0 for one in report.whole for said in one.took)
    # Its weakness is no fault of the rules: an empty answer is never right.
    assert all(one.took[-1].text.strip() for one in report.whole if one.is_right)
