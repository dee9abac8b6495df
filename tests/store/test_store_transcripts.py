"""The place up to which a transcript is recorded is kept with the messages before it."""

from __future__ import annotations

import pytest
from given_store import KEY, NOW

from mcp_compaction.model import Event, NewMessage, Traits, Via
from mcp_compaction.ports import Batch, Mark
from mcp_compaction.store.sqlite import SqliteStore

pytestmark = pytest.mark.anyio


def piece(
    *messages: NewMessage, upto: int, events: tuple[Event, ...] = (), via: Via = "host"
) -> Batch:
    """A piece of a transcript."""
    return Batch(
        messages=messages,
        counter="test",
        via=via,
        has_ids=True,
        mark=Mark(address="a", position=upto, tail=f"t{upto}"),
        events=events,
    )


async def session_in(store: SqliteStore) -> int:
    info, _ = await store.open_session(KEY, Traits(), NOW)
    return info.id
