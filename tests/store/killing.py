"""Kill writers and look at what is left; run as a script, so that forks start from one thread.

Usage: python killing.py TASK FOLDER [NUMBER]. Prints one JSON object with the findings.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import resource
import shutil
import signal
import sqlite3
import sys
import time
import traceback
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path

from given_store import (
    NOW,
    batch,
    compaction,
    damage,
    here,
    history,
    new_session,
    opened,
    rows,
    said,
    state,
    with_store,
)

from mcp_compaction.errors import StoreFull
from mcp_compaction.store import schema
from mcp_compaction.store.connect import connect
from mcp_compaction.store.database import Database
from mcp_compaction.store.sqlite import SqliteStore

CANARY = "xylophone-canary-4711"

Operation = Callable[[SqliteStore], Awaitable[object]]


def in_child(work: Callable[[], None]) -> int:
    """Run something in a forked process; its process id."""
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        work()
        status = 0
    finally:
        if status:
            traceback.print_exc()
        os._exit(status)


def exit_status(pid: int) -> int:
    """How a child ended: 0, its error, or minus the signal."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def kill_at(statement: int, needs_transaction: bool = False) -> None:
    """Have the process kill itself at the Nth statement of all connections made from now on."""
    original = Database.open
    left = count(statement, -1)

    async def open_and_trace(self: Database) -> None:
        await original(self)
        await self.run(lambda c: c.set_trace_callback(_bomb(c, left, needs_transaction)))

    Database.open = open_and_trace


def _bomb(
    connection: sqlite3.Connection, left: Iterator[int], needs_transaction: bool
) -> Callable[[str], None]:
    def tick(_: str) -> None:
        if next(left) <= 1 and (connection.in_transaction or not needs_transaction):
            os.kill(os.getpid(), signal.SIGKILL)

    return tick


# Fault points


async def record(store: SqliteStore) -> object:
    return await store.append(await new_session(store), batch(*history("x", "y", "z")), NOW)


async def compress(store: SqliteStore) -> object:
    return await store.save(await new_session(store), compaction(base=1, number=2))


async def forget_message(store: SqliteStore) -> object:
    return await store.forget(here(await new_session(store)), (3,), NOW)


async def forget_session(store: SqliteStore) -> object:
    return await store.forget(here(await new_session(store)), (), NOW)


def fault_points(folder: Path) -> dict[str, object]:
    """Kill each operation at each of its statements."""
    found: dict[str, object] = {}
    for operation in (record, compress, forget_message, forget_session):
        name = operation.__name__
        base = folder / f"{name}-base.db"
        with_store(base, _fill)
        found[name] = _at_each_statement(base, operation)
    found["migrate"] = _migration_points(folder)
    return found


async def _fill(store: SqliteStore) -> None:
    session = await new_session(store)
    texts = ("one", "two", CANARY, "four", "five", "six")
    await store.append(session, batch(*history(*texts)), NOW)
    await store.save(session, compaction())


def _at_each_statement(base: Path, operation: Operation) -> dict[str, int]:
    before, tally = state(base), {"points": 0, "before": 0, "after": 0, "between": 0, "unsound": 0}
    whole = base.with_name("whole.db")
    shutil.copy(base, whole)
    with_store(whole, operation)
    after = state(whole)
    while True:
        path = base.with_name(f"{base.stem}-{tally['points']}.db")
        shutil.copy(base, path)

        def work(statement: int = tally["points"] + 1, path: Path = path) -> None:
            kill_at(statement)
            with_store(path, operation)

        if exit_status(in_child(work)) != -signal.SIGKILL:
            return tally
        tally["points"] += 1
        _look(path, tally, before, after)


def _look(path: Path, tally: dict[str, int], before: str, after: str) -> None:
    found = state(path)
    tally["before" if found == before else "after" if found == after else "between"] += 1
    with_store(path, _nothing)  # a new opener finishes what was left to purge
    tally["unsound"] += bool(damage(path))
    if found == after != before and "forget" in path.name:
        tally["unsound"] += any(CANARY.encode() in f.read_bytes() for f in _files(path))


async def _nothing(_: SqliteStore) -> None:
    pass


def _files(path: Path) -> list[Path]:
    return list(path.parent.glob(path.name + "*"))


def _grow(connection: sqlite3.Connection) -> None:
    connection.execute("ALTER TABLE event ADD COLUMN weight INTEGER NOT NULL DEFAULT 1")
    connection.execute("CREATE TABLE extra (id INTEGER PRIMARY KEY, text TEXT)")
    connection.execute("INSERT INTO extra (text) SELECT name FROM session")
    connection.execute("CREATE INDEX extra_text ON extra (text)")


def _migration_points(folder: Path) -> dict[str, int]:
    base = folder / "migrate-base.db"
    with_store(base, _fill)
    empty = folder / "migrate-empty.db"
    empty.touch(0o600)
    tally = {"points": 0, "before": 0, "after": 0, "between": 0, "unsound": 0}
    for start in (base, empty):
        old, kills = _schema(start), 0
        while True:
            path = folder / f"{start.stem}-{kills}.db"
            shutil.copy(start, path)
            if exit_status(in_child(lambda p=path, n=kills + 1: _migrate_to_death(p, n))) == 0:
                break
            kills += 1
            found = _schema(path)
            tally["before" if found == old else "after" if found in _WHOLE else "between"] += 1
            schema.open_migrated(path, deadline=5, migrations=_STEPS).close()
            tally["unsound"] += _schema(path) != _WHOLE[-1] or bool(damage(path))
        tally["points"] += kills
    return tally


_STEPS = (*schema.MIGRATIONS, _grow)
# What is left after any number of whole steps: the version, and whether the last one was done.
_WHOLE = (*((n, False) for n in range(1, len(_STEPS))), (len(_STEPS), True))


def _schema(path: Path) -> tuple[int, bool]:
    version = rows(path, "PRAGMA user_version")[0][0]
    extra = rows(path, "SELECT count(*) FROM sqlite_master WHERE name = 'extra_text'")[0][0]
    return int(str(version)), extra == 1


def _migrate_to_death(path: Path, statement: int) -> None:
    connection = connect(path, deadline=5, newest=len(_STEPS))
    connection.set_trace_callback(_bomb(connection, count(statement, -1), needs_transaction=False))
    schema.migrate(connection, _STEPS)


# Random moments


def random_moments(folder: Path) -> dict[str, object]:
    """Kill a writer 100 times, most of them with a transaction open."""
    path = folder / "store.db"
    with_store(path, new_session)
    chance = random.Random(20261115)
    found = {"kills": 0, "in_transaction": 0, "acknowledged": 0, "lost": 0, "unsound": 0}
    for number in range(100):
        inside = number < 130
        acknowledged = _killed_writer(path, number, chance, inside)
        found["kills"] += 1
        found["in_transaction"] += inside
        found["acknowledged"] += len(acknowledged)
        recorded = {str(raw) for (raw,) in rows(path, "SELECT raw FROM message")}
        found["lost"] += sum(said(text).raw not in recorded for text in acknowledged)
        found["unsound"] += bool(damage(path)) or len(recorded) % 2 != 0
    return dict(found)


def _killed_writer(path: Path, number: int, chance: random.Random, inside: bool) -> list[str]:
    reading, writing = os.pipe()
    statement = chance.randint(4, 150)  # the first three only read
    pause = chance.uniform(0.005, 0.04)

    def work() -> None:
        if inside:
            kill_at(statement, needs_transaction=True)
        with_store(path, lambda store: _write_for_ever(store, number, writing))

    pid = in_child(work)
    os.close(writing)
    if not inside:
        time.sleep(pause)
        os.kill(pid, signal.SIGKILL)
    status = exit_status(pid)
    assert status == -signal.SIGKILL, status
    with os.fdopen(reading) as pipe:
        return [line.rstrip("\n") for line in pipe if line.endswith("\n")]


async def _write_for_ever(store: SqliteStore, run: int, pipe: int) -> None:
    session = await new_session(store)
    for number in range(10_000):
        first, second = f"run {run} turn {number} a", f"run {run} turn {number} b"
        await store.append(session, batch(said(first), said(second)), NOW)
        os.write(pipe, f"{first}\n{second}\n".encode())


# Many processes


def many_writers(folder: Path, each: int) -> dict[str, object]:
    """Sixteen processes write so many messages each into one session."""
    path = folder / "store.db"
    with_store(path, new_session)
    began = time.monotonic()

    def write(writer: int) -> None:
        # On a busy machine the lock may go to the others for minutes.
        with_store(path, lambda store: _write_many(store, writer, each), deadline=1_800)

    pids = [in_child(partial(write, writer)) for writer in range(16)]
    errors = sum(exit_status(pid) != 0 for pid in pids)
    seconds = time.monotonic() - began
    listed = rows(path, "SELECT seq, raw FROM message ORDER BY seq")
    order = [json.loads(str(raw))["content"].split() for _, raw in listed]
    in_turn = all(
        [number for who, number in order if who == f"w{n}"] == [str(i) for i in range(each)]
        for n in range(16)
    )
    slowest = max(float(path.read_text()) for path in folder.glob("w[0-9]*"))
    return {
        "errors": errors,
        "gapless": [seq for seq, _ in listed] == list(range(1, 16 * each + 1)),
        "in_turn": in_turn,
        "damage": damage(path),
        "seconds": round(seconds, 1),
        "slowest": round(slowest, 3),
    }


async def _write_many(store: SqliteStore, writer: int, each: int) -> None:
    session = await new_session(store)
    slowest = 0.0
    for number in range(each):
        began = time.monotonic()
        await store.append(session, batch(said(f"w{writer} {number}")), NOW)
        slowest = max(slowest, time.monotonic() - began)
    (store.path.parent / f"w{writer}").write_text(str(slowest))


def first_openers(folder: Path) -> dict[str, object]:
    """Six processes open a store that is not there yet, all at once, twenty times."""
    errors = 0
    for round_number in range(20):
        path = folder / str(round_number) / "store.db"
        waiting, starting = os.pipe()

        def work(path: Path = path, waiting: int = waiting, starting: int = starting) -> None:
            os.close(starting)
            os.read(waiting, 1)  # until the starter lets go
            with_store(path, record)

        pids = [in_child(work) for _ in range(6)]
        os.close(starting)
        os.close(waiting)
        errors += sum(exit_status(pid) != 0 for pid in pids)
        # Each process says the same three messages; the first says them, the others know them.
        errors += rows(path, "SELECT count(*) FROM message") != [(3,)]
    return {"errors": errors}


# A full disk


def full_disk(folder: Path) -> dict[str, object]:
    """Write until files may not grow, read, make room, and write again."""
    return with_store(folder / "store.db", _fill_up)


async def _fill_up(store: SqliteStore) -> dict[str, object]:
    session = await new_session(store)
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (4_000_000, hard))
    acknowledged = 0
    refused = ""
    with suppress(AssertionError):
        for number in range(10_000):
            try:
                await store.append(session, batch(said(f"{number} " + "word " * 500)), NOW)
            except StoreFull as error:
                refused = str(error)
                break
            acknowledged += 1
    readable = len((await store.load(session, NOW)).messages)
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    await store.append(session, batch(said("room again")), NOW)
    after = len((await store.load(session, NOW)).messages)
    found = await store.health()
    return {
        "acknowledged": acknowledged,
        "refused": refused,
        "readable": readable,
        "after": after,
        "problems": list(found.problems),
    }


# Stray descriptors


def audit(folder: Path) -> dict[str, object]:
    """Count who opens the live file behind SQLite's back."""
    path = folder / "store.db"
    strays: list[str] = []

    def watch(event: str, arguments: tuple[object, ...]) -> None:
        if event == "open" and str(arguments[0]).startswith(str(path)):
            strays.append(Path(str(arguments[0])).name.replace(str(os.getpid()), "PID"))

    sys.addaudithook(watch)

    async def use(store: SqliteStore) -> None:
        await _fill(store)
        session = await new_session(store)
        await store.load(session, NOW)
        await store.forget(here(session), (3,), NOW)
        await store.backup(folder / "backup.db")
        await store.health()
        async with opened(path) as other:
            await record(other)

    with_store(path, use)
    asyncio.run(asyncio.sleep(0))
    return {"strays": sorted(set(strays))}


TASKS: dict[str, Callable[..., dict[str, object]]] = {
    task.__name__: task
    for task in (fault_points, random_moments, many_writers, first_openers, full_disk, audit)
}

if __name__ == "__main__":
    place = Path(sys.argv[2])
    place.chmod(0o700)
    with_store(place / "warm.db", _fill)  # so that no child has to import anything
    numbers = map(int, sys.argv[3:])
    sys.stdout.write(json.dumps(TASKS[sys.argv[1]](place, *numbers)))
