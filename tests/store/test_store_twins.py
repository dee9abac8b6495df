"""Other messages that hold all that one says are found exactly, within a scope."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from given_store import NOW, batch, here, new_session, opened, said
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_compaction.model import NewMessage
from mcp_compaction.ports import Scope, SessionKey

pytestmark = pytest.mark.anyio


EVERYWHERE = Scope(project=None)


async def twins_of(
    folder: Path, *messages: NewMessage, seq: int = 1, elsewhere: NewMessage | None = None
) -> list[tuple[str, str, str]]:
    """The twins of a message of a session, with one other session in another project."""
    async with opened(folder / "store.db") as store:
        session = await new_session(store)
        await store.append(session, batch(*messages), NOW)
        if elsewhere is not None:
            other = await new_session(store, SessionKey(project="/other", name="o"))
            await store.append(other, batch(elsewhere), NOW)
        found = await store.twins(here(session), seq, EVERYWHERE)
        assert found.more == 0
        return [(twin.project, twin.session, twin.ref) for twin in found.found]


@pytest.mark.thorough
@given(text=st.text(min_size=8, max_size=60).filter(lambda text: len("".join(text.split())) > 7))
@settings(deadline=None, max_examples=40)
async def test_any_text_is_found_again_however_its_json_was_written(
    text: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    text = text.encode(errors="replace").decode()
    raw = json.dumps({"role": "assistant", "content": f"so {text} it"}, ensure_ascii=False)
    other = said("x", "assistant").model_copy(update={"raw": raw.replace("/", "\\/")})
    found = await twins_of(tmp_path_factory.mktemp("any"), said(text), other)
    assert [ref for _, _, ref in found] == ["m2"]
