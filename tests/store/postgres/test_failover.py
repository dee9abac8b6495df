"""A standby that is promoted goes on where the first server was, with all that it had confirmed."""

from __future__ import annotations

import shutil
from collections.abc import Generator
from contextlib import contextmanager, suppress

import anyio
import pytest

from mcp_compaction.errors import StoreError
from mcp_compaction.store.postgres.store import PostgresStore, open_store
from tests.store.given_store import NOW, batch, here, new_session, said
from tests.store.postgres_server import (
    WHY_NOT,
    Server,
    find_programs,
    new_folder,
    running_server,
)

pytestmark = [pytest.mark.anyio, pytest.mark.thorough]


@contextmanager
def standby_of(server: Server) -> Generator[Server]:
    """A second server that follows the first by streaming replication."""
    standby = Server(server.programs, new_folder())
    try:
        standby.run(
            "pg_basebackup", "-h", str(server.folder), "-U", "postgres", "-D", str(standby.data),
            "-R", "-X", "stream", "--checkpoint=fast", "--no-sync",
        )  # fmt: skip
        standby.start()
        yield standby
    finally:
        with suppress(RuntimeError):
            standby.stop("immediate")
        shutil.rmtree(standby.folder, ignore_errors=True)


async def test_nothing_that_a_synchronous_standby_confirmed_is_lost() -> None:
    if find_programs() is None:
        pytest.skip(WHY_NOT)
    with running_server("-c", "wal_level=replica") as first, standby_of(first) as standby:
        first.run("psql", first.address, "-c", "ALTER SYSTEM SET synchronous_standby_names = '*'")
        first.run("psql", first.address, "-c", "SELECT pg_reload_conf()")
        hosts = f"host={first.folder},{standby.folder}&target_session_attrs=read-write"
        store = await open_store(f"postgresql://postgres@/postgres?{hosts}", "ann")
        session = await new_session(store)
        await say(store, session, range(30))
        await anyio.to_thread.run_sync(first.stop, "immediate")
        await anyio.to_thread.run_sync(
            standby.run, "pg_ctl", "-D", str(standby.data), "-w", "promote"
        )
        # A standby that was promoted has none of its own, and must not wait for one.
        standby.run("psql", standby.address, "-c", "ALTER SYSTEM RESET synchronous_standby_names")
        standby.run("psql", standby.address, "-c", "SELECT pg_reload_conf()")
        await say(store, session, range(30, 60))
        found = [one.message.text for one in await store.originals(here(session))]
        assert found == [f"message {number}" for number in range(60)]
        assert (await store.health()).problems == ()
        await store.close()
        first.start()


async def say(store: PostgresStore, session: int, numbers: range) -> None:
    """Say messages, each until it is acknowledged."""
    for number in numbers:
        message = batch(said(f"message {number}", host_id=f"id{number}"))
        while True:
            with suppress(StoreError):
                await store.append(session, message, NOW)
                break
