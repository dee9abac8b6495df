"""Which session was meant by a name that no session has."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcp_compaction import compactor
from mcp_compaction.errors import UnknownSession
from mcp_compaction.ports import SessionKey
from tests.compactor.small_session import open_session

pytestmark = pytest.mark.anyio


async def test_a_name_is_compared_with_the_newest_names_only(tmp_path: Path):
    async with open_session(tmp_path, name="zeppelin") as (work, _):
        with pytest.raises(UnknownSession, match=r"did you mean zeppelin\?"):
            await compactor.find_session(work, "/p", "zepelin")
        for number in range(100):
            await compactor.open_session(work, SessionKey(project="/p", name=f"{number:03}"))
        with pytest.raises(UnknownSession, match=r"name one of: 099, .* and 96 more") as refused:
            await compactor.find_session(work, "/p", "zepelin")
        assert "did you mean" not in str(refused.value)
        assert (await compactor.find_session(work, "/p", "zeppelin")).name == "zeppelin"
