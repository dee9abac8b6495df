"""What is forgotten leaves no byte in the gaps of the file either."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from given_store import (
    CANARY,
    NOW,
    PROJECT,
    batch,
    bytes_left,
    damage,
    here,
    new_session,
    opened,
    said,
)

from mcp_compaction.model import (
    NewMessage,
)
from mcp_compaction.ports import SessionKey

pytestmark = pytest.mark.anyio


SIZES = (0, 3, 40, 200, 700, 1000, 5000)


def sized(chance: random.Random) -> NewMessage:
    """A message of any size, every other one or so with the canary."""
    secret = f"{CANARY}{chance.randint(0, 9)} " if chance.random() < 0.4 else ""
    return said(secret + "pad " * chance.choice(SIZES) + str(chance.random()))


@pytest.mark.parametrize(  # these left bytes before the file was rewritten
    "seed",
    [
        13,
        pytest.param(17, marks=pytest.mark.thorough),
        pytest.param(20, marks=pytest.mark.thorough),
    ],
)
async def test_messages_of_all_sizes_leave_no_byte_in_the_gaps(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    async with opened(tmp_path / "store.db") as store:
        keys = [SessionKey(project=PROJECT, name=f"s{number}") for number in range(4)]
        sessions = [await new_session(store, key) for key in keys]
        for _ in range(80):
            session = chance.choice(sessions)
            said_now = [sized(chance) for _ in range(chance.randint(1, 6))]
            await store.append(session, batch(*said_now), NOW)
            if chance.random() < 0.15:
                for original in (await store.originals(here(session)))[-2:]:
                    await store.forget(here(session), (original.message.seq,), NOW)
        for session in sessions[1::2]:
            await store.forget(here(session), (), NOW)
        for session in sessions[::2]:
            for original in await store.originals(here(session)):
                if CANARY in original.message.raw:
                    await store.forget(here(session), (original.message.seq,), NOW)
    assert bytes_left(tmp_path) == []
    assert [line for line in damage(tmp_path / "store.db") if "can be read" not in line] == []
