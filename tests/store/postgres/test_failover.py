"""A standby that is promoted goes on where the first server was, with all that it had confirmed."""

from __future__ import annotations

import shutil
from collections.abc import Generator, Iterable
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


class Pair:
    """Two servers, of which one follows the other; which is which changes with each failover."""

    def __init__(self, first: Server, second: Server) -> None:
        self.live, self.other = first, second

    @property
    def address(self) -> str:
        """How both are reached: whichever takes writes."""
        hosts = f"host={self.live.folder},{self.other.folder}&target_session_attrs=read-write"
        return f"postgresql://postgres@/postgres?{hosts}"

    def follow(self) -> None:
        """Have the other one follow from now on, and what is acknowledged wait for it."""
        shutil.rmtree(self.other.data, ignore_errors=True)
        self.other.run(
            "pg_basebackup", "-h", str(self.live.folder), "-U", "postgres", "-D",
            str(self.other.data), "-R", "-X", "stream", "--checkpoint=fast", "--no-sync",
        )  # fmt: skip
        self.other.start()
        self._set("ALTER SYSTEM SET synchronous_standby_names = '*'")

    def fail_over(self) -> None:
        """Crash the one that takes writes, and promote the other."""
        self.live.stop("immediate")
        self.live, self.other = self.other, self.live
        self.live.run("pg_ctl", "-D", str(self.live.data), "-w", "promote")
        self._set("ALTER SYSTEM RESET synchronous_standby_names")

    def _set(self, statement: str) -> None:
        for one in (statement, "SELECT pg_reload_conf()"):
            self.live.run("psql", self.live.address, "-c", one)


@pytest.mark.slow
async def test_writers_go_on_through_five_failovers_and_lose_nothing() -> None:
    if find_programs() is None:
        pytest.skip(WHY_NOT)
    with running_server("-c", "wal_level=replica") as first:
        pair = Pair(first, Server(first.programs, new_folder()))
        stores = [await open_store(pair.address, f"owner{n}") for n in range(4)]
        sessions = [await new_session(store) for store in stores]
        try:
            for first_word in range(0, 200, 40):
                await anyio.to_thread.run_sync(pair.follow)
                some, rest = (
                    range(first_word, first_word + 5),
                    range(first_word + 5, first_word + 40),
                )
                async with anyio.create_task_group() as tasks:
                    for store, session in list(zip(stores, sessions, strict=True))[1:]:
                        tasks.start_soon(say, store, session, (*some, *rest))
                    await say(stores[0], sessions[0], some)  # the others write meanwhile, too
                    tasks.start_soon(say, stores[0], sessions[0], rest)
                    await anyio.to_thread.run_sync(pair.fail_over)
            for n, store in enumerate(stores):
                found = await store.originals(here(sessions[n]), limit=1000)
                assert [one.message.text for one in found] == [f"message {m}" for m in range(200)]
                assert [one.message.seq for one in found] == list(range(1, 201))
                assert (await store.health()).problems == ()
        finally:
            for store in stores:
                await store.close()
            pair.live.stop("immediate")
            if pair.live is first:
                first.start()  # which the fixture stops
            else:
                shutil.rmtree(first.data)
                first.make()
                first.start()
            other = pair.live if pair.live is not first else pair.other
            shutil.rmtree(other.folder, ignore_errors=True)


async def say(store: PostgresStore, session: int, numbers: Iterable[int]) -> None:
    """Say messages, each until it is acknowledged."""
    for number in numbers:
        message = batch(said(f"message {number}", host_id=f"id{number}"))
        while True:
            with suppress(StoreError):
                await store.append(session, message, NOW)
                break
