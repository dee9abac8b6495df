"""Forgotten bytes go as soon as no reader needs the log, and cost nothing until then."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from given_store import (
    CANARY,
    NOW,
    batch,
    bytes_left,
    here,
    history,
    new_session,
    opened,
    rows,
    said,
)

from mcp_compaction.errors import StoreBusy, UnknownRef
from mcp_compaction.store.connect import connect
from mcp_compaction.store.database import Database, Stop, is_purge_due, purge
from mcp_compaction.store.sqlite import SqliteStore

pytestmark = pytest.mark.anyio

STARTS = 4


@contextmanager
def reader_of(path: Path) -> Generator[None]:
    """A program that has begun to read and does not come to an end."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN")
        connection.execute("SELECT count(*) FROM message").fetchone()
        yield


async def record_canary(store: SqliteStore) -> int:
    session = await new_session(store)
    texts = [f"{number} " + "word " * 200 for number in range(40)]
    await store.append(session, batch(*history(CANARY, *texts)), NOW)
    return session


async def forget_in_vain(store: SqliteStore, session: int) -> None:
    with pytest.raises(StoreBusy, match="close the programs"):
        await store.forget(here(session), (1,), NOW)


async def forgotten_beside_a_reader(path: Path) -> None:
    """Forget a message although a reader keeps its bytes in the log."""
    async with opened(path) as store:
        await forget_in_vain(store, await record_canary(store))


def log_size(path: Path) -> int:
    return path.with_name(path.name + "-wal").stat().st_size


async def problems(path: Path) -> tuple[str, ...]:
    async with opened(path) as store:
        return (await store.health()).problems


async def open_and_close(path: Path) -> None:
    async with opened(path):
        pass


async def test_starts_beside_a_reader_leave_the_log_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with opened(path) as store:
        await record_canary(store)
    with reader_of(path):
        await forgotten_beside_a_reader(path)
        before = log_size(path)
        for _ in range(STARTS):
            await open_and_close(path)
        assert log_size(path) == before


async def test_the_next_start_after_the_reader_removes_the_bytes(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with opened(path) as store:
        await record_canary(store)
    with reader_of(path):
        await forgotten_beside_a_reader(path)
        assert rows(path, "SELECT purged FROM tombstone") == [(0,)]
    await open_and_close(path)
    assert bytes_left(tmp_path) == []
    assert rows(path, "SELECT purged FROM tombstone") == [(1,)]


async def is_due(store: SqliteStore) -> bool:
    return any("Forgotten bytes" in problem for problem in (await store.health()).problems)


async def test_the_next_write_of_a_running_server_removes_the_bytes(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with opened(path) as server, opened(path) as forgetting:
        session = await record_canary(server)
        with reader_of(path):
            await forget_in_vain(forgetting, session)
            await server.append(session, batch(said("while it reads")), NOW)
            assert await is_due(server)
        await server.append(session, batch(said("after it has read")), NOW)
        assert not await is_due(server)
        assert log_size(path) < 100_000
    assert bytes_left(tmp_path) == []


async def test_doctor_says_that_a_reader_holds_forgotten_bytes(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with opened(path) as store:
        await record_canary(store)
    with reader_of(path):
        await forgotten_beside_a_reader(path)
        found = await problems(path)
        assert any("still in the log: a reader holds it" in line for line in found)
    found = await problems(path)
    assert not any("Forgotten bytes" in line for line in found)


async def test_the_file_is_written_anew_once_although_a_reader_comes_in_between(
    tmp_path: Path,
) -> None:
    path = tmp_path / "store.db"
    async with opened(path) as store:
        await record_canary(store)
    with reader_of(path):
        await forgotten_beside_a_reader(path)
    vacuums = 0
    reader = sqlite3.connect(path, isolation_level=None)

    def trace(statement: str) -> None:
        nonlocal vacuums
        if statement == "VACUUM":
            vacuums += 1
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM message").fetchone()

    with closing(connect(path, deadline=5)) as connection:
        connection.set_trace_callback(trace)
        for _ in range(3):
            assert not purge(connection, Stop())
        assert is_purge_due(connection)
        reader.close()
        assert purge(connection, Stop())
        assert not is_purge_due(connection)
        assert vacuums == 1
    assert bytes_left(tmp_path) == []


async def test_several_messages_are_forgotten_by_writing_the_file_anew_once(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    statements: list[str] = []
    async with opened(path) as store:
        session = await new_session(store)
        await store.append(session, batch(*history(*(f"{CANARY} {n}" for n in range(9)))), NOW)
        with traced(statements):
            async with opened(path) as forgetting:
                await forgetting.forget(here(session), (2, 4, 4, 6), NOW)
        left = [message.text for message in (await store.load(session, NOW)).messages]
        assert [number for number, text in enumerate(left, 1) if text == "[forgotten]"] == [2, 4, 6]
        with pytest.raises(UnknownRef, match="m99"):
            await store.forget(here(session), (1, 99), NOW)
        assert (await store.load(session, NOW)).messages[0].text == f"{CANARY} 0"
        await store.forget(here(session), (), NOW)
    assert statements.count("VACUUM") == 1
    assert bytes_left(tmp_path) == []


@contextmanager
def traced(statements: list[str]) -> Generator[None]:
    """A while in which every connection that is opened notes its statements."""
    original = Database.open

    async def open_and_trace(self: Database) -> None:
        await original(self)
        await self.run(lambda c: c.set_trace_callback(statements.append))

    Database.open = open_and_trace
    try:
        yield
    finally:
        Database.open = original


async def test_a_later_forget_is_purged_with_an_earlier_one(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with opened(path) as store:
        session = await record_canary(store)
        await store.append(session, batch(said(f"{CANARY} again")), NOW)
        with reader_of(path):
            await forget_in_vain(store, session)
        await store.forget(here(session), (42,), NOW)
    assert bytes_left(tmp_path) == []
    assert rows(path, "SELECT DISTINCT purged FROM tombstone") == [(1,)]
