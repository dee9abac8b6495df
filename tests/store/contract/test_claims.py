"""One compacts a session at a time, and whoever looks sees it."""

from __future__ import annotations

import anyio
import pytest

from mcp_compaction.ports import SessionKey
from tests.store.contract.places import Place
from tests.store.given_store import PATIENCE, PROJECT, new_session

pytestmark = pytest.mark.anyio


async def test_a_session_is_claimed_by_one_and_free_after_it(place: Place) -> None:
    async with place.opened() as one, place.opened() as other:
        session = await new_session(one)
        elsewhere = await new_session(one, SessionKey(project=PROJECT, name="elsewhere"))
        assert not await other.is_compacting(session)
        async with one.compacting(session, 0) as is_first:
            assert is_first
            assert await other.is_compacting(session)
            async with other.compacting(session, 0) as is_second:
                assert not is_second
            assert await other.is_compacting(session)  # who did not get it gives nothing back
            async with other.compacting(elsewhere, 0) as is_other:
                assert is_other
        assert not await other.is_compacting(session)
        async with other.compacting(session, 0) as is_next:
            assert is_next


async def test_who_waits_gets_a_claim_as_soon_as_it_is_given_back(place: Place) -> None:
    order: list[str] = []
    async with place.opened() as one, place.opened() as other:
        session = await new_session(one)
        is_held = anyio.Event()

        async def wait_for_it() -> None:
            await is_held.wait()
            async with other.compacting(session, PATIENCE) as is_ours:
                assert is_ours
                order.append("second")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait_for_it)
            async with one.compacting(session, 0):
                is_held.set()
                await anyio.lowlevel.checkpoint()
                order.append("first")
    assert order == ["first", "second"]


async def test_a_cancelled_owner_gives_its_claim_back(place: Place) -> None:
    async with place.opened() as one, place.opened() as other:
        session = await new_session(one)
        with anyio.CancelScope() as scope:
            async with one.compacting(session, 0):
                scope.cancel()
                await anyio.sleep_forever()
        assert not await other.is_compacting(session)
