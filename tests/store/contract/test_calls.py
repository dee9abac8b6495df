"""What models were asked for is summed by session, and goes when the session goes."""

from __future__ import annotations

from datetime import timedelta

import pytest

from mcp_compaction.model import ModelCall, Spent
from mcp_compaction.ports import SessionKey
from tests.store.contract.places import Place
from tests.store.given_store import NOW, PROJECT, new_session

pytestmark = pytest.mark.anyio


ANSWERED = ModelCall(
    model="small", seconds=1.5, input_tokens=900, output_tokens=80, cached_tokens=10, cost=0.25
)


FAILED = ModelCall(model="small", seconds=0.5, failed="no answer within 1 s")


OTHER = SessionKey(project=PROJECT, name="other")


async def test_calls_are_summed_of_a_session_and_of_all_since_a_moment_and_ever(
    place: Place,
) -> None:
    async with place.opened() as store:
        one, other = await new_session(store), await new_session(store, OTHER)
        await store.add_calls(one, [ANSWERED], NOW)
        await store.add_calls(one, [ANSWERED, FAILED], NOW + timedelta(hours=2))
        await store.add_calls(other, [FAILED], NOW)
        assert await store.spent(one) == Spent(
            calls=3,
            input_tokens=1800,
            output_tokens=160,
            cached_tokens=20,
            cost=0.5,
            seconds=3.5,
            failed=1,
        )
        assert (await store.spent(one, NOW + timedelta(hours=1))).calls == 2
        assert (await store.spent(None)).calls == 4
        assert await store.spent(one, NOW + timedelta(hours=3)) == Spent()
