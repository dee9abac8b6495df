"""What models were asked for is summed by session, and goes when the session goes."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcp_compaction.model import ModelCall
from mcp_compaction.store.schema import MIGRATIONS, open_migrated
from tests.store.given_store import NOW, here, new_session, opened, rows

pytestmark = pytest.mark.anyio


ANSWERED = ModelCall(
    model="small", seconds=1.5, input_tokens=900, output_tokens=80, cached_tokens=10, cost=0.25
)


FAILED = ModelCall(model="small", seconds=0.5, failed="no answer within 1 s")


async def test_a_forgotten_session_leaves_no_call_behind(tmp_path: Path) -> None:
    async with opened(tmp_path / "store.db") as store:
        one = await new_session(store)
        await store.add_calls(one, [FAILED], NOW)
        await store.forget(here(one), (), NOW)
    assert rows(tmp_path / "store.db", "SELECT count(*) FROM model_call") == [(0,)]


async def test_a_store_from_before_there_were_model_calls_is_brought_up_to_date(
    tmp_path: Path,
) -> None:
    path = tmp_path / "store.db"
    open_migrated(path, deadline=1, migrations=MIGRATIONS[:1]).close()
    async with opened(path) as store:
        one = await new_session(store)
        await store.add_calls(one, [ANSWERED], NOW)
        assert (await store.spent(one)).calls == 1
