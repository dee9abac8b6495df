"""What was said is appended once, in order, and comes back byte for byte."""

from __future__ import annotations

from pathlib import Path

import pytest
from given_store import (
    NOW,
    batch,
    history,
    new_session,
    opened,
    rows,
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
