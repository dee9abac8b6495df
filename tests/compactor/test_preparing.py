"""Preparing for a window that somebody else empties, and its records, on a real store."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mcp_compaction import compactor
from mcp_compaction.compactor import compressing
from mcp_compaction.compactor.results import Prepared
from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.core.policy import Policy
from mcp_compaction.formats import read_incoming
from mcp_compaction.model import (
    Ask,
    Compaction,
    Draft,
    Refusal,
    SessionInfo,
    SummaryRequest,
    Traits,
)
from mcp_compaction.ports import Scope
from mcp_compaction.store.sqlite import open_store
from mcp_compaction.summarizers.extractive import ExtractiveSummarizer
from tests.compactor.small_session import open_session, record_long, user
from tests.strategies import coding_session

pytestmark = pytest.mark.anyio

ROOMY = Policy(window_tokens=200_000)
MANY = 100_000  # characters


async def prepare(work: Workspace, info: SessionInfo) -> Prepared:
    done = await compactor.prepare(work, info)
    assert isinstance(done, Prepared), done
    return done


async def shown_by(work: Workspace, info: SessionInfo) -> str:
    """All that a caller sees of the window."""
    fill, stats = (await work.read_window(info)).fill, await compactor.read_stats(work, info)
    return (
        json.dumps(await compactor.context(work, info)) + fill.model_dump_json() + str(stats.last)
    )


@pytest.mark.parametrize("owns_window", [True, False])
async def test_preparing_digests_all_but_the_newest_steps_and_shows_the_same_window(
    tmp_path: Path, owns_window: bool
) -> None:
    async with open_session(tmp_path, policy=ROOMY) as (work, info):
        await work.store.set_traits(info.id, Traits(owns_window=owns_window))
        number = await record_long(work, info)
        before = await shown_by(work, info)
        assert (await work.read_window(info)).fill.percent < 20
        done = await prepare(work, info)
        assert number - 10 <= done.digested_upto < number
        assert await shown_by(work, info) == before
        text = await compactor.read_records(work, info, max_chars=MANY)
        assert f"[digest {done.digests[-1].ref} of " in text
        assert f"in no digest: m1, m{done.digested_upto + 1}..m{number};" in text


class Noting(ExtractiveSummarizer):
    """Notes which spans were asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.spans: list[tuple[int, int]] = []

    async def summarize(self, request: SummaryRequest) -> Draft:
        self.spans.append((request.first, request.last))
        return await super().summarize(request)


async def test_the_next_preparation_asks_only_for_what_is_new(tmp_path: Path) -> None:
    summarizer = Noting()
    async with open_session(tmp_path, policy=ROOMY, summarizer=summarizer) as (work, info):
        await record_long(work, info)
        first = await prepare(work, info)
        asked = len(summarizer.spans)
        more = list(coding_session(20, 300))[1:]
        await compactor.record(work, info, read_incoming([user("And now the docs."), *more]))
        second = await prepare(work, info)
        assert second.digested_upto > first.digested_upto
        assert all(start > first.digested_upto for start, _ in summarizer.spans[asked:])


async def test_what_is_forgotten_leaves_prepared_digests_and_records(tmp_path: Path) -> None:
    async with open_session(tmp_path, policy=ROOMY) as (work, info):
        rule = "Never deploy build-id 7f3a91c2 to the moon."
        first, *rest = coding_session(40, 300)
        said = [first, *rest[:2], user(rule), *rest[2:], user("And now?")]
        await compactor.record(work, info, read_incoming(said))
        await prepare(work, info)
        assert "7f3a91c2" in await compactor.read_records(work, info, max_chars=MANY)
        await compactor.forget(work, Scope(project=info.project, session=info.id), "m4")
        assert "7f3a91c2" not in await compactor.read_records(work, info, max_chars=MANY)
        assert b"7f3a91c2" not in (tmp_path / "store.db").read_bytes()


async def test_a_preparation_waits_for_no_other_compaction_longer_than_a_compression_would(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compressing, "_PATIENCE", 0.0)
    async with open_session(tmp_path, policy=ROOMY) as (work, info):
        await record_long(work, info)
        other = await open_store(tmp_path / "store.db")
        try:
            async with other.compacting(info.id, 0.0) as is_ours:
                assert is_ours
                refused = await compactor.prepare(work, info)
        finally:
            await other.close()
        assert isinstance(refused, Refusal)
        assert refused.reason == "being_compacted"
        await prepare(work, info)


async def test_what_was_prepared_beside_a_view_that_has_changed_is_not_kept(tmp_path: Path) -> None:
    async with open_session(tmp_path) as (work, info):
        await record_long(work, info)
        done = await compactor.compress(work, info, Ask(reason="one", target_percent=30))
        assert isinstance(done, Compaction)
        store = await open_store(tmp_path / "store.db")
        try:
            assert await store.prepared_view(info.id) is None
            stale = done.model_copy(update={"digests": ()})
            assert not await store.save_prepared(info.id, stale)
            fresh = stale.model_copy(update={"base_version": done.view.version})
            assert await store.save_prepared(info.id, fresh)
            assert await store.prepared_view(info.id) is not None
            await compactor.restore(work, info, done.receipt.ref, force=True)
            assert await store.prepared_view(info.id) is None
        finally:
            await store.close()
