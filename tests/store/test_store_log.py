"""What was said is appended once, in order, and comes back byte for byte."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from given_store import (
    NOW,
    answered,
    batch,
    called,
    here,
    history,
    new_session,
    opened,
    rows,
    said,
)

from mcp_compaction.model import Sections

pytestmark = pytest.mark.anyio


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a test's store lies."""
    tmp_path.chmod(0o700)
    return tmp_path / "store.db"


async def test_sections_are_loaded(path: Path) -> None:
    async with opened(path) as store:
        session = await new_session(store)
        sections = Sections(system="be kind", memory="likes tea")
        given = batch(*history("12345", "123")).model_copy(
            update={"sections": sections, "section_tokens": 100, "memory_tokens": 50}
        )
        await store.append(session, given, NOW)
        await store.append(session, given, NOW)
        loaded = await store.load(session, NOW)
        assert loaded.sections == sections
        assert (loaded.section_tokens, loaded.memory_tokens) == (100, 50)
    assert rows(path, "SELECT count(*) FROM section") == [(1,)]


async def test_a_tool_call_is_found_by_an_index_of_messages(path: Path) -> None:
    async with opened(path) as store:
        session = await new_session(store)
        made = (called("c%1", "Bash", {"cmd": "ls"}), answered("c%1", "cart.py"), said("c%1 is it"))
        await store.append(session, batch(*made), NOW)
        with closing(sqlite3.connect(path)) as other, other:
            other.execute("DELETE FROM tool_call")  # what a scan asks first
        found = await store.messages_of_calls(here(session), ("c%1", "c11"))
        assert found == ((1, 2), ())
