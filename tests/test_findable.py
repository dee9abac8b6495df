"""What a receipt calls recoverable: judged for all at once, and really given back by recall."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import closing
from datetime import datetime
from itertools import islice
from pathlib import Path

import pytest

from benchmarks.windows import joined
from mcp_compaction import compactor
from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.core.log.identifiers import Finding, identifiers_by_message
from mcp_compaction.core.policy import Policy
from mcp_compaction.core.recall.query import terms_of
from mcp_compaction.counters.o200k import EstimateCounter
from mcp_compaction.formats import read_incoming
from mcp_compaction.model import SearchQuery, SessionInfo
from mcp_compaction.ports import Scope, SessionKey
from mcp_compaction.store.connect import connect
from mcp_compaction.store.search import search_many
from mcp_compaction.store.sqlite import open_store
from mcp_compaction.summarizers.extractive import ExtractiveSummarizer
from tests.sessions import NOW

pytestmark = [pytest.mark.anyio, pytest.mark.thorough]

MESSAGES = 240
LIMIT = 5


class StillClock:
    """A clock that stands, so that two runs can be compared."""

    def now(self) -> datetime:
        return NOW


async def open_workspace(path: Path, policy: Policy | None = None) -> tuple[Workspace, SessionInfo]:
    work = Workspace(
        store=await open_store(path),
        summarizer=ExtractiveSummarizer(),
        counter=EstimateCounter(),
        clock=StillClock(),
        policy=policy or Policy(),
    )
    info, _ = await compactor.open_session(work, SessionKey(project="/p", name="work"))
    return work, info


async def record(path: Path) -> dict[int, tuple[Finding, ...]]:
    work, info = await open_workspace(path)
    try:
        await compactor.record(work, info, read_incoming(list(islice(joined(), MESSAGES))))
        return identifiers_by_message((await work.load(info)).messages)
    finally:
        await work.store.close()


@pytest.fixture(scope="module")
def recorded(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Path, dict[int, tuple[Finding, ...]]]:
    """A store with one session that names hundreds of things, and what each message names."""
    path = tmp_path_factory.mktemp("findable") / "store.db"
    return path, asyncio.run(record(path))


def queries_of(wanted: Sequence[Finding]) -> list[SearchQuery]:
    return [SearchQuery(terms=terms_of(finding.text)) for finding in wanted]


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
    work, info = await open_workspace(path)
    try:
        for finding in recoverable:
            given = (await compactor.recall(work, info, finding.text)).hits
            assert any(finding in named[int(hit.ref[1:])] for hit in given), finding
    finally:
        await work.store.close()
