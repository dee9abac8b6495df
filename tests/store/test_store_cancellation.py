"""A cancelled caller leaves no lock, no open transaction and no half write behind."""

from __future__ import annotations

import asyncio
import random
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from contextlib import suppress
from pathlib import Path

import anyio
import pytest
from given_store import (
    NOW,
    PATIENCE,
    batch,
    compaction,
    damage,
    here,
    history,
    is_writable_now,
    new_session,
    opened,
    rows,
    said,
)

from mcp_compaction.errors import StoreBusy, StoreError
from mcp_compaction.store.database import Database, Writer
from mcp_compaction.store.lockfile import LockFile
from mcp_compaction.store.schema import open_migrated
from mcp_compaction.store.sqlite import SqliteStore, open_store

pytestmark = [pytest.mark.anyio, pytest.mark.thorough]


async def steps(number: int) -> None:
    """Let the loop go round some times."""
    for _ in range(number):
        await asyncio.sleep(0)


async def write_something(store: SqliteStore, session: int, number: int) -> None:
    """One of several writes, all or nothing each."""
    match number % 20:
        case 19:
            await store.forget(here(session), (1,), NOW)
        case 4 | 9 | 14:
            base = (await store.load(session, NOW)).view.version
            await store.save(session, compaction(base=base, number=base + 1))
        case _:
            await store.append(session, batch(*(said(f"t{number} {i}") for i in range(3))), NOW)


async def length(store: SqliteStore, session: int, number: int) -> int:
    """How often the loop goes round during such a write."""
    task = asyncio.create_task(write_something(store, session, number))
    count = 0
    while not task.done():
        await asyncio.sleep(0)
        count += 1
    await task
    return count


async def cancelled_natively(store: SqliteStore, session: int, number: int, after: int) -> bool:
    task = asyncio.create_task(write_something(store, session, number))
    await steps(after)
    task.cancel()
    if number % 3 == 0:
        await steps(1)
        task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        return True
    return False


async def cancelled_by_scope(store: SqliteStore, session: int, number: int, after: int) -> bool:
    scope = anyio.CancelScope()
    cancelling = asyncio.create_task(_cancel_after(scope, after))
    with scope:
        await write_something(store, session, number)
    await cancelling
    return scope.cancelled_caught


async def _cancel_after(scope: anyio.CancelScope, after: int) -> None:
    await steps(after)
    scope.cancel()


@pytest.mark.parametrize("times", [500, pytest.param(2_000, marks=pytest.mark.slow)])
async def test_cancellations_leave_no_lock_and_no_half_write(times: int, memory_path: Path) -> None:
    path = memory_path / "store.db"
    chance = random.Random(4)
    outcomes: Counter[bool] = Counter()
    async with opened(path) as store:
        session = await new_session(store)
        await store.append(session, batch(*history(*"abcdef")), NOW)
        lengths: list[int] = []
        for number in range(times):
            if number % 100 == 0:  # a write slows down as the store grows
                lengths = [await length(store, session, 10_000 + number + i) for i in range(20)]
            after = chance.randint(0, int(1.2 * lengths[number % 20]))
            how = cancelled_by_scope if chance.random() < 0.5 else cancelled_natively
            outcomes[await how(store, session, number, after)] += 1
            lock = LockFile(path)
            assert lock.try_acquire()
            lock.close()
            assert is_writable_now(path)
        await store.append(session, batch(said("still alive")), NOW)
    assert min(outcomes[True], outcomes[False]) > 10, outcomes
    written = rows(path, "SELECT text FROM passage WHERE kind = 'm' AND text GLOB 't[0-9]*'")
    assert set(Counter(str(text).split()[0] for (text,) in written).values()) == {3}
    ((newest, version),) = rows(path, "SELECT max(version), max(view_version) FROM view, session")
    assert newest == version
    made = "SELECT count(*), (SELECT count(*) FROM digest) FROM receipt"
    ((receipts, digests),) = rows(path, made)
    assert receipts == digests
    bases = "base_version > 0 AND base_version NOT IN (SELECT version FROM view)"
    assert rows(path, f"SELECT base_version FROM receipt WHERE {bases}") == []
    async with opened(path) as store:  # a new opener finishes the purge of a cancelled forget
        await new_session(store)
    assert [line for line in damage(path) if "can be read" not in line] == []


async def test_a_long_statement_stops_when_its_caller_is_cancelled(tmp_path: Path) -> None:
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"
    running = threading.Event()

    def work(connection: sqlite3.Connection) -> None:
        running.set()
        connection.execute(endless).fetchone()

    path = tmp_path / "store.db"
    database = Database(path, lambda: open_migrated(path, deadline=1))
    await database.open()
    lock_file = LockFile(path)
    writer = Writer(lambda: database, lock_file, 1)
    task = asyncio.create_task(writer.transaction(work))
    await asyncio.to_thread(running.wait)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not await database.run(lambda c: c.in_transaction)
    await database.close()
    lock_file.close()


async def test_a_cancellation_after_commit_began_keeps_the_write(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    committing, go_on = threading.Event(), threading.Event()

    def pause_at_commit(statement: str) -> None:
        if statement == "COMMIT":
            committing.set()
            go_on.wait(PATIENCE)

    database = Database(path, lambda: open_migrated(path, deadline=1))
    await database.open()
    lock_file = LockFile(path)
    writer = Writer(lambda: database, lock_file, 1)
    await database.run(lambda c: c.set_trace_callback(pause_at_commit))
    task = asyncio.create_task(
        writer.transaction(
            lambda c: c.execute(
                "INSERT INTO tombstone (session, ref, sha256, at) VALUES (1, 'x', '', '')"
            )
        )
    )
    await asyncio.to_thread(committing.wait, PATIENCE)
    task.cancel()
    await steps(3)
    assert not task.done()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    await database.close()
    lock_file.close()
    assert rows(path, "SELECT count(*) FROM tombstone") == [(1,)]


async def test_a_cancellation_before_commit_takes_the_write_back(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    has_written, go_on = threading.Event(), threading.Event()

    def work(connection: sqlite3.Connection) -> None:
        connection.execute(
            "INSERT INTO tombstone (session, ref, sha256, at) VALUES (1, 'x', '', '')"
        )
        has_written.set()
        go_on.wait(PATIENCE)

    database = Database(path, lambda: open_migrated(path, deadline=1))
    await database.open()
    lock_file = LockFile(path)
    task = asyncio.create_task(Writer(lambda: database, lock_file, 1).transaction(work))
    await asyncio.to_thread(has_written.wait, PATIENCE)
    task.cancel()
    await steps(3)
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    await database.close()
    lock_file.close()
    assert rows(path, "SELECT count(*) FROM tombstone") == [(0,)]


async def test_a_lock_that_stays_taken_is_reported_at_the_deadline(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with opened(path, deadline=0.05) as store:
        session = await new_session(store)
        lock = LockFile(path)
        assert lock.try_acquire()
        with pytest.raises(StoreBusy, match=r"try again"):
            await store.append(session, batch(said("hello")), NOW)
        with pytest.raises(StoreBusy):
            await open_store(path, 0.05)
        lock.close()
        assert (await store.append(session, batch(said("hello")), NOW)).new == 1


async def test_opening_can_be_cancelled_while_the_lock_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    lock = LockFile(path)
    assert lock.try_acquire()
    task = asyncio.create_task(open_store(path, 30))
    await steps(5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    lock.close()


async def test_opening_can_be_cancelled_at_any_step(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    for number in range(60):
        task = asyncio.create_task(open_store(path, 30))
        await steps(number)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await (await task).close()
        lock = LockFile(path)
        assert lock.try_acquire()
        lock.close()


async def test_closing_twice_or_at_once_does_nothing_more(tmp_path: Path) -> None:
    store = await open_store(tmp_path / "store.db")
    session = await new_session(store)
    await asyncio.gather(store.close(), store.close())
    await store.close()
    with pytest.raises(StoreError, match="open it again"):
        await store.append(session, batch(said("late")), NOW)
    with pytest.raises(StoreError, match="open it again"):
        await store.load(session, NOW)
    left = sorted(file.name for file in tmp_path.glob("store.db*"))
    assert left == ["store.db", "store.db.lock"]


def test_a_store_nobody_closed_does_not_keep_the_process_alive(tmp_path: Path) -> None:
    code = (
        "import asyncio, pathlib, sys, os\n"
        "from mcp_compaction.store.sqlite import open_store\n"
        "store = asyncio.run(open_store(pathlib.Path(sys.argv[1])))\n"
    )
    subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "store.db")], check=True, timeout=300
    )


async def test_closing_does_not_wait_for_ever_for_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    store = await open_store(path)
    lock = LockFile(path)
    assert lock.try_acquire()
    await asyncio.wait_for(store.close(), PATIENCE)
    lock.close()
