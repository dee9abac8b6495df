"""Whose a token is: strangers cannot raise what that costs, and no change is missed."""

from __future__ import annotations

import anyio
import pytest

from mcp_compaction.errors import StoreBusy, StoreError
from mcp_compaction.server.team import KnownTokens
from mcp_compaction.store.postgres.tokens import TokenIdentity, hash_token

pytestmark = pytest.mark.anyio

ANN = TokenIdentity("ann", "shop")


class Table:
    """Tokens in force, and how often each question was asked of them."""

    def __init__(self, *tokens: str) -> None:
        self.tokens = set(tokens)
        self.readings = 0
        self.look_ups = 0
        self.is_away = False
        self.may_read = anyio.Event()

    async def read_list(self) -> list[str]:
        self.readings += 1
        listed = [hash_token(token) for token in self.tokens]
        await self.may_read.wait()
        if self.is_away:
            raise StoreError("away")
        return listed

    async def find(self, token: str) -> TokenIdentity | None:
        self.look_ups += 1
        return ANN if token in self.tokens else None

    def known(self) -> KnownTokens:
        return KnownTokens(self.read_list, self.find, between=0.0)


async def ask_all(known: KnownTokens, tokens: list[str], table: Table) -> list[object]:
    """What each is told, when all ask at once."""
    told: list[object] = []

    async def ask(token: str) -> None:
        try:
            told.append(await known.identify(token))
        except StoreError as error:
            told.append(type(error))

    async with anyio.create_task_group() as group:
        for token in tokens:
            group.start_soon(ask, token)
        await anyio.wait_all_tasks_blocked()
        table.may_read.set()
    return told


async def test_many_strangers_at_once_cost_two_readings_and_no_look_up() -> None:
    table = Table("good")
    told = await ask_all(table.known(), [f"wrong {n}" for n in range(60)], table)
    assert told == [None] * 60
    assert table.readings <= 2
    assert table.look_ups == 0


async def test_a_known_token_waits_for_no_stranger() -> None:
    table = Table("good")
    table.may_read.set()
    known = table.known()
    assert await known.identify("good") == ANN
    table.may_read = anyio.Event()  # from now on who has the list read waits
    async with anyio.create_task_group() as group:
        for number in range(60):
            group.start_soon(known.identify, f"wrong {number}")
        await anyio.wait_all_tasks_blocked()
        assert await known.identify("good") == ANN
        group.cancel_scope.cancel()


async def test_a_revoked_token_opens_nothing_from_then_on() -> None:
    table = Table("good")
    table.may_read.set()
    known = table.known()
    assert await known.identify("good") == ANN
    table.tokens.clear()
    assert await known.identify("good") is None
    looked_up = table.look_ups
    assert await known.identify("good") is None
    assert table.look_ups == looked_up


async def test_while_the_store_is_away_nobody_is_told_that_a_token_is_wrong() -> None:
    table = Table("good")
    table.is_away = True
    told = await ask_all(table.known(), ["good"] * 20, table)
    assert set(told) <= {StoreError, StoreBusy}
    assert table.readings <= 2
