"""Pins are kept byte for byte, seen where they apply, and released rather than lost."""

from __future__ import annotations

from pathlib import Path

import pytest
from given_store import NOW, add_pin, new_session, opened

from mcp_compaction.errors import StoreDamaged
from mcp_compaction.model import NewPin, PinScope
from mcp_compaction.store.connect import connect

pytestmark = pytest.mark.anyio


def pin(text: str, scope: PinScope = "session", **more: object) -> NewPin:
    """A constraint of the user's."""
    given = {"text": text, "kind": "constraint", "scope": scope, "author": "user", **more}
    return NewPin.model_validate(given)


async def test_a_pin_that_was_tampered_with_is_not_shown(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with opened(path) as store:
        session = await new_session(store)
        await add_pin(store, session, pin("never push to main"), NOW)
        other = connect(path, deadline=5)
        other.execute("UPDATE pin SET text = 'always push to main'")
        other.close()
        with pytest.raises(StoreDamaged, match="not what was pinned"):
            await store.load(session, NOW)
