"""A compaction is saved whole, on the view it was made from, and can be looked back at."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from given_store import (
    NOW,
    batch,
    compaction,
    damage,
    here,
    history,
    new_session,
    opened,
    said,
    with_store,
)

from mcp_compaction.errors import UnknownRef
from mcp_compaction.model import View
from mcp_compaction.ports import SearchQuery
from mcp_compaction.store.sqlite import SqliteStore

SIX = history("one", "two", "three", "four", "five", "six")


def test_a_saved_view_decides_what_is_loaded(tmp_path: Path) -> None:
    async def use(store: SqliteStore) -> None:
        session = await new_session(store)
        await store.append(session, batch(*SIX), NOW)
        assert await store.save(session, compaction())
        await store.append(session, batch(said("seven")), NOW)
        loaded = await store.load(session, NOW)
        assert [message.seq for message in loaded.messages] == [1, 5, 6, 7]
        assert [digest.number for digest in loaded.digests] == [1]
        assert loaded.view == compaction().view
        assert (loaded.next_digest, loaded.next_compaction) == (2, 2)
        assert loaded.last_compaction == compaction().receipt
        before = await store.load(session, NOW, View())
        assert [message.seq for message in before.messages] == [1, 2, 3, 4, 5, 6, 7]

    with_store(tmp_path / "store.db", use)


def test_a_compaction_of_an_older_view_is_not_saved(tmp_path: Path) -> None:
    async def use(store: SqliteStore) -> None:
        session = await new_session(store)
        await store.append(session, batch(*SIX), NOW)
        assert await store.save(session, compaction())
        assert not await store.save(session, compaction(number=2))
        assert await store.save(session, compaction(base=1, number=2))
        assert [number for _, number in await store.receipts(session)] == [0, 1]
        assert [digest.number for digest in await store.digests(session)] == [1, 2]

    with_store(tmp_path / "store.db", use)


def test_of_two_compactions_at_once_one_wins(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    async def main() -> None:
        async with opened(path) as one, opened(path) as other:
            session = await new_session(one)
            await one.append(session, batch(*SIX), NOW)
            for base in range(50):
                made = compaction(base=base, number=base + 1)
                won = await asyncio.gather(
                    one.save(session, made),
                    other.save(session, made),
                    other.append(session, batch(said(f"meanwhile {base}")), NOW),
                )
                assert won[:2].count(True) == 1
            assert len(await one.receipts(session)) == 50

    asyncio.run(main())
    assert [line for line in damage(path) if "can be read" not in line] == []


def test_an_older_view_can_be_looked_at(tmp_path: Path) -> None:
    async def use(store: SqliteStore) -> None:
        session = await new_session(store)
        await store.append(session, batch(*SIX), NOW)
        await store.save(session, compaction())
        assert await store.view(session, 0) == View()
        assert (await store.view(session, 1)).body == compaction().view.body
        with pytest.raises(UnknownRef, match="receipts"):
            await store.view(session, 2)

    with_store(tmp_path / "store.db", use)


def test_a_digest_is_found_by_its_words(tmp_path: Path) -> None:
    async def use(store: SqliteStore) -> None:
        session = await new_session(store)
        await store.append(session, batch(*SIX), NOW)
        await store.save(session, compaction())
        (hit,) = await store.search(here(), SearchQuery(terms=("8443",)), 5)
        assert (hit.ref, hit.role, hit.at) == ("d1", "digest", NOW)

    with_store(tmp_path / "store.db", use)
