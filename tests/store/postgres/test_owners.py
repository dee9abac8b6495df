"""No probe of one owner, and none without an owner, sees a row of another."""

from __future__ import annotations

import os
from random import Random
from uuid import uuid4

import psycopg
import pytest

from mcp_compaction.errors import CompactionError
from mcp_compaction.model import NewPin, SearchQuery
from mcp_compaction.ports import Scope
from mcp_compaction.store.postgres import database as databases
from mcp_compaction.store.postgres.database import PoolLimits, TeamDatabase
from mcp_compaction.store.postgres.schema import TABLES
from mcp_compaction.store.postgres.store import PostgresStore
from tests.store.given_store import NOW, add_pin, batch, compaction, history, matching, new_session
from tests.store.postgres_server import Server

pytestmark = [pytest.mark.anyio, pytest.mark.thorough]

OWNERS = 50
PROBES = int(os.environ.get("MCP_COMPACTION_TEST_PROBES", "1000"))
ROLE = "probing_server"
EVERYWHERE = Scope(project=None)


async def filled(database: TeamDatabase) -> list[tuple[PostgresStore, str]]:
    """Owners who all have a session of the same name and number, each with a word of its own."""
    found: list[tuple[PostgresStore, str]] = []
    for _ in range(OWNERS):
        word = f"canary{uuid4().hex}"
        store = PostgresStore(database, f"owner-{uuid4().hex}", is_shared=True)
        session = await new_session(store)
        texts = ("one", "two", f"the word is {word}", "four", "five", "six")
        await store.append(session, batch(*history(*texts)), NOW)
        assert await store.save(session, compaction())
        pin = NewPin(text=f"never say {word}", kind="fact", scope="global", author="user")
        await add_pin(store, session, pin, NOW)
        found.append((store, word))
    return found


async def test_no_owner_sees_anothers_rows(postgres: Server) -> None:
    await databases.migrate(postgres.address, grant_to=ROLE)
    role = postgres.address_of(ROLE)
    chance = Random(50)
    async with databases.opened(role, PoolLimits(4)) as database:
        owners = await filled(database)
        for number in range(PROBES):
            (mine, word), (_, theirs) = chance.sample(owners, 2)
            seen = await probe(mine, theirs, number)
            assert theirs not in seen
            if number < OWNERS:
                assert word in repr(await matching(mine, EVERYWHERE, word))
    async with await psycopg.AsyncConnection.connect(role) as connection:
        for number in range(PROBES):
            store, _ = owners[number % OWNERS]
            table = TABLES[number % len(TABLES)]
            query = f"SELECT count(*) FROM {table} WHERE owner = %s OR true".encode()
            cursor = await connection.execute(query, (store.owner,))
            assert await cursor.fetchone() == (0,), table


async def probe(store: PostgresStore, word: str, number: int) -> str:
    """All that an owner is given who asks for a word of another's, in one way or the other."""
    one = Scope(project=None, session=1 + number % 3)
    try:
        match number % 8:
            case 0:
                return repr(await matching(store, EVERYWHERE, word))
            case 1:
                return repr(await store.pins(EVERYWHERE, NOW, released=True))
            case 2:
                return repr(await store.originals(one))
            case 3:
                return repr(await store.load(1, NOW))
            case 4:
                found = await store.find(EVERYWHERE, SearchQuery(terms=(word,)))
                return word if found.terms[0].places else ""
            case 5:
                found = await store.pin_facts(one, [f"the word is {word}"], 20, ())
                return repr(found.said)
            case 6:
                return repr(await store.twins(one, 3, EVERYWHERE))
            case _:
                return repr(await store.list_passages(EVERYWHERE, SearchQuery(terms=()), 100))
    except CompactionError as error:
        return str(error)
