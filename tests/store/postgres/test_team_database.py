"""What PostgreSQL itself has to do for a team's store: rows of one owner, restarts, a bouncer."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
from collections.abc import AsyncGenerator, Generator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Event as ThreadEvent
from uuid import uuid4

import anyio
import pytest

from mcp_compaction.core.recall.rank import rank
from mcp_compaction.errors import StoreError, StoreNewer, StoreReadOnly
from mcp_compaction.model import Event, SearchQuery
from mcp_compaction.ports import Scope
from tests.store.given_store import NOW, batch, here, history, matching, new_session, said
from tests.store.postgres_server import Server, other_user, running_server

psycopg = pytest.importorskip("psycopg")
from mcp_compaction.store.postgres import database as databases  # noqa: E402
from mcp_compaction.store.postgres.database import PgTx, PoolLimits, TeamDatabase  # noqa: E402
from mcp_compaction.store.postgres.schema import TABLES  # noqa: E402
from mcp_compaction.store.postgres.store import PostgresStore, open_store  # noqa: E402

pytestmark = pytest.mark.anyio

ROLE = "team_server"


@pytest.fixture(scope="session")
async def role(postgres: Server) -> str:
    """How the server's role reaches tables that are another's."""
    await databases.migrate(postgres.address, grant_to=ROLE)
    return postgres.address_of(ROLE)


@pytest.fixture
async def database(role: str) -> AsyncGenerator[TeamDatabase]:
    """The database as the server's role has it."""
    async with databases.opened(role, PoolLimits(connections=4)) as opened:
        yield opened


def owner() -> str:
    """A name that no other test has."""
    return f"owner-{uuid4().hex}"


async def test_the_servers_role_sees_no_row_without_an_owner_nor_another_owners(
    database: TeamDatabase, role: str
) -> None:
    ann, bob = owner(), owner()
    store = PostgresStore(database, ann)
    session = await new_session(store)
    await store.append(session, batch(*history("the vault is open", "noted")), NOW)
    async with await psycopg.AsyncConnection.connect(role) as connection:
        for table in TABLES:
            cursor = await connection.execute(f"SELECT count(*) FROM {table}".encode())
            assert await cursor.fetchone() == (0,), table
        await connection.execute(b"SELECT set_config('mcp_compaction.owner', %s, true)", (bob,))
        cursor = await connection.execute(b"SELECT count(*) FROM message WHERE owner = %s", (ann,))
        assert await cursor.fetchone() == (0,)
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            await connection.execute(b"INSERT INTO counter (owner) VALUES (%s)", (ann,))
    theirs = PostgresStore(database, bob)
    assert await theirs.sessions(Scope(project=None), 10) == ()
    assert await matching(theirs, Scope(project=None), "vault") == ()
    assert await matching(store, here(), "vault")


async def test_the_policies_are_forced_and_the_role_can_pass_none(role: str) -> None:
    async with await psycopg.AsyncConnection.connect(role) as connection:
        cursor = await connection.execute(
            b"SELECT relname FROM pg_class WHERE relkind = 'r' AND relrowsecurity"
            b" AND relforcerowsecurity"
        )
        assert {name for (name,) in await cursor.fetchall()} >= set(TABLES)
        cursor = await connection.execute(
            b"SELECT rolsuper, rolbypassrls FROM pg_roles WHERE rolname = current_user"
        )
        assert await cursor.fetchone() == (False, False)
        cursor = await connection.execute(
            b"SELECT count(*) FROM pg_tables WHERE tableowner = current_user"
        )
        assert await cursor.fetchone() == (0,)


async def test_a_term_is_looked_up_by_the_index_although_the_policy_applies(
    database: TeamDatabase, postgres: Server, role: str
) -> None:
    store = PostgresStore(database, owner())
    session = await new_session(store)
    texts = [f"word{number} stands beside other{number % 7}" for number in range(2_000)]
    await store.append(session, batch(*map(said, texts[:1_000])), NOW)
    await store.append(session, batch(*map(said, texts[1_000:])), NOW)
    async with await psycopg.AsyncConnection.connect(postgres.address, autocommit=True) as admin:
        await admin.execute(b"ANALYZE posting")
        await admin.execute(b"ANALYZE passage")
    for condition in ("term = 'word77'", "term >= 'word77' AND term <= 'word77z'"):
        rows = await database.read(
            store.owner,
            lambda tx, condition=condition: tx.all(
                "EXPLAIN SELECT passage FROM posting WHERE owner = %(owner)s"
                f" AND {condition} AND session = {session}"
            ),
        )
        plan = "\n".join(row["QUERY PLAN"] for row in rows)
        assert "posting_pkey" in plan
        assert "Index Cond" in plan
        assert "term" in plan.partition("Index Cond")[2].partition("\n")[0], plan


async def test_many_processes_that_open_a_new_database_at_once_make_its_tables_once(
    postgres: Server,
) -> None:
    name = f"new_{uuid4().hex[:8]}"
    async with await psycopg.AsyncConnection.connect(postgres.address, autocommit=True) as admin:
        await admin.execute(f"CREATE DATABASE {name}".encode())
    address = postgres.address_of("postgres", name)
    stores = await asyncio.gather(*(open_store(address, f"owner{n}") for n in range(6)))
    for store in stores:
        assert (await store.health()).problems == ()
        await store.close()
    async with await psycopg.AsyncConnection.connect(address, autocommit=True) as admin:
        await admin.execute(b"INSERT INTO migration (version) VALUES (99)")
    with pytest.raises(StoreNewer):
        await open_store(address, "owner")


async def test_a_role_that_may_not_make_the_tables_says_who_has_to(postgres: Server) -> None:
    name = f"bare_{uuid4().hex[:8]}"
    async with await psycopg.AsyncConnection.connect(postgres.address, autocommit=True) as admin:
        await admin.execute(f"CREATE DATABASE {name}".encode())
        await admin.execute(b"CREATE ROLE nobody_much LOGIN")
    with pytest.raises(StoreReadOnly, match="run once as their owner"):
        await open_store(postgres.address_of("nobody_much", name), "owner")


async def test_no_password_is_shown(tmp_path: Path) -> None:
    address = f"postgresql://ann:s3cret@/db?host={tmp_path}&password=s3cret"
    with pytest.raises(StoreError) as raised:
        await open_store(address, "ann", PoolLimits(seconds=0.5))
    assert "s3cret" not in f"{raised.value}{raised.value.__cause__}{raised.value.__context__}"
    assert "cannot be reached" in str(raised.value)


async def test_a_claim_of_a_process_that_died_ends_by_itself(database: TeamDatabase) -> None:
    store = PostgresStore(database, owner())
    session = await new_session(store)
    async with store.compacting(session, 0):
        await database.write(
            store.owner,
            lambda tx: tx.run(
                "UPDATE claim SET expires = clock_timestamp() WHERE owner = %(owner)s"
            ),
        )
        assert not await store.is_compacting(session)
        async with store.compacting(session, 0) as is_theirs:
            assert is_theirs
        # The late owner gives back what is no longer its own: nothing.
    async with store.compacting(session, 0) as is_ours:
        assert is_ours


async def test_a_write_that_is_cancelled_while_it_waits_leaves_nothing_and_blocks_nobody(
    database: TeamDatabase, role: str
) -> None:
    store = PostgresStore(database, owner())
    session = await new_session(store)
    begun = ThreadEvent()
    with psycopg.connect(role) as other:
        other.execute("SELECT set_config('mcp_compaction.owner', %s, true)", (store.owner,))
        other.execute("SELECT 1 FROM session WHERE id = %s FOR UPDATE", (session,))

        def write(tx: PgTx) -> None:
            tx.run(
                "INSERT INTO event (owner, session, name, at, detail)"
                " VALUES (%(owner)s, %(session)s, 'NAME', '', '')",
                session=session,
            )
            begun.set()
            tx.run("UPDATE session SET name = 'late' WHERE owner = %(owner)s")

        with anyio.fail_after(30):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(database.write, store.owner, write)
                while not begun.is_set():
                    await anyio.sleep(0.01)  # the loop runs on while the thread waits
                tasks.cancel_scope.cancel()
            assert await store.events(session) == ()
    assert (await store.sessions(Scope(project=None), 1))[0].name != "late"
    for _ in range(5):  # more than there are connections
        await store.add_event(session, Event(name="NAME", at=NOW, detail=""))
    assert len(await store.events(session)) == 5


@pytest.mark.thorough
async def test_a_restart_of_postgresql_loses_nothing_that_was_acknowledged() -> None:
    with running_server() as server:
        store = await open_store(server.address, "ann")
        session = await new_session(store)
        kept: list[str] = []

        async def say(number: int) -> None:
            text = f"message {number}"
            try:
                await store.append(session, batch(said(text, host_id=f"id{number}")), NOW)
                kept.append(text)
            except StoreError:
                pass

        for number in range(60):
            if number in (20, 40):
                await anyio.to_thread.run_sync(server.stop, "immediate")
                await anyio.to_thread.run_sync(server.start)
            await say(number)
        assert (await store.health()).problems == ()
        found = [one.message.text for one in await store.originals(here(session))]
        await store.close()
    assert set(kept) <= set(found)
    assert len(kept) >= 55


@contextmanager
def bouncer(server: Server) -> Generator[str]:
    """A real PgBouncer in transaction mode before a server; how to reach that through it."""
    program = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if program is None:
        pytest.skip("no PgBouncer here: apt-get install pgbouncer")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    config = server.folder / "bouncer.ini"
    config.write_text(
        f"[pgbouncer]\npool_mode = transaction\n"
        f"listen_addr = 127.0.0.1\nlisten_port = {port}\nauth_type = any\nunix_socket_dir =\n"
        "default_pool_size = 3\nignore_startup_parameters = extra_float_digits\n"
        f"[databases]\npostgres = host={server.folder} user=postgres\n",
        encoding="ascii",
    )
    config.chmod(0o644)
    process = subprocess.Popen([program, "-q", str(config)], user=other_user())
    try:
        address = f"postgresql://postgres@127.0.0.1:{port}/postgres"
        _wait_for(port)
        yield address
    finally:
        process.terminate()
        process.wait()


def _wait_for(port: int) -> None:
    while True:
        with closing(socket.socket()) as client:
            if client.connect_ex(("127.0.0.1", port)) == 0:
                return


@pytest.mark.thorough
async def test_behind_a_bouncer_in_transaction_mode_all_is_the_same(postgres: Server) -> None:
    with bouncer(postgres) as address:
        stores = [await open_store(address, f"bounced{n}", PoolLimits(4)) for n in range(6)]
        async with anyio.create_task_group() as tasks:
            for number, store in enumerate(stores):
                tasks.start_soon(use, store, f"secret{number}")
        for number, store in enumerate(stores):
            words = [f"secret{other}" for other in range(6)]
            query = SearchQuery(terms=tuple(words))
            found = await store.read(
                Scope(project=None), query, rank(await store.find(Scope(project=None), query))
            )
            assert {hit.text for hit in found} == {f"the word is secret{number}"}
            await store.close()


async def use(store: PostgresStore, word: str) -> None:
    """Record, claim and pin as a server would."""
    session = await new_session(store)
    for number in range(10):
        await store.append(session, batch(said(f"turn {number}", host_id=f"h{number}")), NOW)
        async with store.compacting(session, 5) as is_ours:
            assert is_ours
    await store.append(session, batch(said(f"the word is {word}", host_id="last")), NOW)
    await store.keep_thinking(session, dict.fromkeys(("one", "two", "three"), "beginning"))
    await store.keep_thinking(session, dict.fromkeys(("one", "two")))
    assert await store.thinking(session) == {"three": "beginning"}
    assert (await store.health()).problems == ()
