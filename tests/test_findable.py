"""What a receipt calls recoverable: judged for all at once, and really given back by recall."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from datetime import datetime
from itertools import islice
from pathlib import Path

import pytest

from benchmarks.windows import GENERATED, joined, window_of
from mcp_compaction.compactor import Collaborators, Compactor
from mcp_compaction.core.log.identifiers import Finding, identifiers_by_message
from mcp_compaction.core.policy import Policy
from mcp_compaction.core.recall.query import terms_of
from mcp_compaction.core.recall.terms import ways_of
from mcp_compaction.core.text.haystack import Haystack
from mcp_compaction.core.tokens import estimate
from mcp_compaction.counters.estimate import EstimateCounter
from mcp_compaction.formats import read_incoming
from mcp_compaction.model import Ask, Compaction, SearchQuery, SessionInfo
from mcp_compaction.ports import Scope, SessionKey
from mcp_compaction.store import search
from mcp_compaction.store.connect import connect
from mcp_compaction.store.search import search_many
from mcp_compaction.store.sqlite import open_store
from mcp_compaction.summarizers.extractive import ExtractiveSummarizer
from tests.sessions import NOW

pytestmark = [pytest.mark.anyio, pytest.mark.thorough]

MESSAGES = 240
LIMIT = 5
BEST_OF_ONE = """
    SELECT passage.number FROM passage_index
    CROSS JOIN passage ON passage.id = passage_index.rowid
    WHERE passage_index MATCH ? AND passage.session = ? AND passage.kind = 'm'
    GROUP BY passage.number ORDER BY min(passage_index.rank), passage.number DESC LIMIT 5
"""


class StillClock:
    """A clock that stands, so that two runs can be compared."""

    def now(self) -> datetime:
        return NOW


async def open_compactor(path: Path, policy: Policy | None = None) -> tuple[Compactor, SessionInfo]:
    collaborators = Collaborators(
        store=await open_store(path),
        summarizer=ExtractiveSummarizer(),
        counter=EstimateCounter(),
        clock=StillClock(),
        policy=policy or Policy(),
    )
    compactor = Compactor(collaborators)
    info, _ = await compactor.open(SessionKey(project="/p", name="work"))
    return compactor, info


async def record(path: Path) -> dict[int, tuple[Finding, ...]]:
    compactor, info = await open_compactor(path)
    try:
        await compactor.record(info, read_incoming(list(islice(joined(), MESSAGES))))
        return identifiers_by_message((await compactor.load(info)).messages)
    finally:
        await compactor.close()


@pytest.fixture(scope="module")
def recorded(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Path, dict[int, tuple[Finding, ...]]]:
    """A store with one session that names hundreds of things, and what each message names."""
    path = tmp_path_factory.mktemp("findable") / "store.db"
    return path, asyncio.run(record(path))


def queries_of(wanted: Sequence[Finding]) -> list[SearchQuery]:
    return [SearchQuery(terms=terms_of(finding.text)) for finding in wanted]


def ask_index(connection: sqlite3.Connection, query: SearchQuery) -> list[int]:
    """What the store's own full-text index ranks first for one query."""
    asked = (way for term in query.terms for way in ways_of(term) if any(map(str.isalnum, term)))
    phrases = " OR ".join(f'"{way.phrase}"' + " *" * way.is_start for way in asked)
    rows = connection.execute(BEST_OF_ONE, (f"{{text keys}} : ({phrases})", 1))
    return [number for (number,) in rows]


def test_all_together_are_judged_as_the_index_would_judge_each(
    recorded: tuple[Path, dict[int, tuple[Finding, ...]]],
) -> None:
    path, named = recorded
    wanted = list(dict.fromkeys(finding for found in named.values() for finding in found))
    queries = queries_of(wanted)
    with closing(connect(path, deadline=5)) as connection:
        together = search_many(connection, Scope(project="/p", session=1), queries, LIMIT)
        alone = [ask_index(connection, query) for query in queries]

    def is_held(finding: Finding, numbers: Sequence[int]) -> bool:
        return any(finding in named[number] for number in numbers)

    judged = [is_held(*one) for one in zip(wanted, together, strict=True)]
    assert len(wanted) > 500
    assert judged == [is_held(*one) for one in zip(wanted, alone, strict=True)]


async def test_what_is_called_recoverable_is_on_the_first_page_of_recall(
    recorded: tuple[Path, dict[int, tuple[Finding, ...]]],
) -> None:
    path, named = recorded
    wanted = list(dict.fromkeys(finding for found in named.values() for finding in found))[::12]
    with closing(connect(path, deadline=5)) as connection:
        scope = Scope(project="/p", session=1)
        hits = search_many(connection, scope, queries_of(wanted), LIMIT)
    recoverable = [
        finding
        for finding, numbers in zip(wanted, hits, strict=True)
        if any(finding in named[number] for number in numbers)
    ]
    assert len(recoverable) > 40
    compactor, info = await open_compactor(path)
    try:
        for finding in recoverable:
            given = (await compactor.recall(info, finding.text)).hits
            assert any(finding in named[int(hit.ref[1:])] for hit in given), finding
    finally:
        await compactor.close()


def test_more_queries_are_no_more_work_for_the_store(
    recorded: tuple[Path, dict[int, tuple[Finding, ...]]],
) -> None:
    path, named = recorded
    queries = queries_of([finding for found in named.values() for finding in found])

    def steps_for(asked: Sequence[SearchQuery]) -> int:
        steps = 0

        def count() -> int:
            nonlocal steps
            steps += 1
            return 0

        with closing(connect(path, deadline=5)) as connection:
            connection.set_progress_handler(count, 10)
            search_many(connection, Scope(project="/p", session=1), asked, LIMIT)
        return steps

    assert steps_for(queries[:500]) == steps_for(queries[:5]) > 0


@pytest.mark.parametrize("how", [{"force": True}, {"target_percent": 25.0}])
@pytest.mark.parametrize("kind", list(GENERATED))
async def test_a_compaction_comes_out_as_if_each_thing_were_looked_for_alone(
    kind: str, how: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    window = window_of(GENERATED[kind](), 12_000, estimate)
    ask = Ask.model_validate({"reason": "test", **how})

    async def compress(name: str) -> tuple[str, str]:
        compactor, info = await open_compactor(tmp_path / name, Policy(window_tokens=12_000))
        try:
            await compactor.record(info, read_incoming(list(window)))
            outcome = await compactor.compress(info, ask)
            assert isinstance(outcome, Compaction)
            return outcome.model_dump_json(), json.dumps(await compactor.context(info))
        finally:
            await compactor.close()

    def one_by_one(
        connection: sqlite3.Connection, _: Scope, queries: Sequence[SearchQuery], __: int
    ) -> tuple[tuple[int, ...], ...]:
        return tuple(tuple(ask_index(connection, query)) for query in queries)

    def plainly(haystack: Haystack, part: str) -> bool:
        return part in haystack.text

    together = await compress("together.db")
    monkeypatch.setattr(search, "search_many", one_by_one)
    monkeypatch.setattr(Haystack, "holds", plainly)
    assert await compress("alone.db") == together
