"""Both stores in one run: the same questions, the same messages, the same machine.

    python benchmarks/two_stores.py --store postgresql://postgres@/postgres?host=/run/postgresql

Writes rows of owners of its own into that database, and removes none. `--locomo FILE` asks every
question of LoCoMo's chats of both stores and counts the answers that differ. With `--keep FOLDER`
stores that took long to fill are there for the next run; with `--copies N` each message stands in
them N times when they are asked.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from uuid import uuid4

from mcp_compaction import compactor

sys.path.insert(0, str(Path(__file__).parents[1]))
import psycopg

from benchmarks.chats import read_locomo
from benchmarks.copies import copy_file, copy_rows
from benchmarks.recall_at_scale import (
    QUERIES,
    ask,
    batches,
    home_of,
    messages,
    probes_for,
)
from benchmarks.stores import PROJECT, open_on, record
from benchmarks.tables import Table, milliseconds, progress, table_text, times
from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.model import Ask
from mcp_compaction.ports import SessionKey, Store
from mcp_compaction.store.connect import store_path
from mcp_compaction.store.postgres.store import open_store as open_rows
from mcp_compaction.store.sqlite import open_store as open_file

_TIMED = 100  # messages that are recorded one by one
_PROCESSES = (1, 2, 4)
_LARGE_SESSION = "long"


async def open_both(folder: Path, address: str) -> dict[str, Workspace]:
    """A workspace on each store of a folder, empty where they are new."""
    folder.mkdir(parents=True, exist_ok=True)
    owner = folder / "owner"
    if not owner.exists():
        owner.write_text(f"b{uuid4().hex[:5]}", encoding="utf-8")
    stores: dict[str, Store] = {
        "SQLite": await open_file(store_path(folder)),
        "PostgreSQL": await open_rows(address, owner.read_text(encoding="utf-8")),
    }
    return {name: open_on(store) for name, store in stores.items()}


async def compare_answers(path: Path, address: str, folder: Path) -> Table:
    """How many questions about real chats have the same answer in both stores."""
    both = await open_both(folder / "answers", address)
    asked = different = 0
    for chat in read_locomo(path):
        infos = {name: (await record(one, chat.name, chat.came))[0] for name, one in both.items()}
        for query in chat.queries:
            found = [
                [
                    (hit.ref, hit.ordinal, hit.text, round(hit.score, 9))
                    for hit in (await compactor.recall(one, infos[name], query.text)).hits
                ]
                for name, one in both.items()
            ]
            asked += 1
            different += found[0] != found[1]
            progress(f"asking both: {asked:,}, of which {different:,} differ")
    await close(both)
    return Table(
        title="Questions about LoCoMo's chats: the passages, their order and their scores",
        columns={"asked": ",d", "answered differently": ",d"},
        rows=[{"asked": asked, "answered differently": different}],
    )


async def measure(size: int, address: str, folder: Path, copies: int) -> list[Table]:
    """Record, compress and recall in both stores of that size."""
    place = folder / f"{size}"
    both = await open_both(place, address)
    rows = [{"store": name} | await fill_once(place, name, one, size) for name, one in both.items()]
    if copies > 1 and not (place / "copies").exists():
        owner = (place / "owner").read_text(encoding="utf-8")
        (place / "copies").write_text(str(copies), encoding="utf-8")
        copy_rows(address, owner, copies)
        copy_file(store_path(place), copies)
    analyze(address)
    kinds: list[dict[str, Any]] = []
    slow: dict[str, list[float]] = {}
    infos = {
        name: await compactor.find_session(one, PROJECT, _LARGE_SESSION)
        for name, one in both.items()
    }
    for name, one in both.items():
        await compactor.recall(one, infos[name], "warm")
    for kind, probes in probes_for(size, infos["SQLite"].messages).items():
        progress(f"asking: {kind}")
        taken: dict[str, list[float]] = {name: [] for name in both}
        for probe in probes:  # in turns, so that whatever else the machine does hits both
            for name, one in both.items():
                taken[name].append((await ask(one, infos[name], probe)).ms)
        for name, ms in taken.items():
            kinds.append({"query": kind, "store": name} | times(ms))
            slow.setdefault(name, []).extend(ms)
    totals = [{"store": name, "queries": len(ms)} | times(ms) for name, ms in slow.items()]
    await close(both)
    p = ("p50 ms", "p95 ms")
    return [
        Table(
            title=f"A store of {size:,} messages: recorded in batches, then {_TIMED} one by one, "
            "then one session of 400 compressed",
            columns={"store": "", "messages/s": ",.0f"}
            | {"record p50 ms": ",.2f", "record p95 ms": ",.2f", "compress ms": ",.0f"},
            rows=rows,
        ),
        Table(
            title=f"Recall among {size * copies:,} messages, {QUERIES} queries of each kind",
            columns={"query": "", "store": ""} | dict.fromkeys(p, ",.2f"),
            rows=kinds,
        ),
        Table(
            title="Recall, all kinds together",
            columns={"store": "", "queries": ",d"} | dict.fromkeys(p, ",.2f"),
            rows=totals,
        ),
    ]


async def fill_once(place: Path, name: str, work: Workspace, size: int) -> dict[str, Any]:
    """What filling a store took, now or when it was filled."""
    told = place / f"{name}.json"
    if not told.exists():
        told.write_text(json.dumps(await fill(work, size)), encoding="utf-8")
    return json.loads(told.read_text(encoding="utf-8"))


async def fill(work: Workspace, size: int) -> dict[str, Any]:
    """Record so many messages, some more one by one, and compress a session of their like."""
    began = time.perf_counter()
    for batch, numbers in batches(size):
        info, _ = await compactor.open_session(work, home_of(batch))
        await compactor.record(work, info, messages(numbers, size))
        progress(f"recording: {numbers[-1] + 1:,} of {size:,}")
    rate = size / (time.perf_counter() - began)
    info, _ = await compactor.open_session(work, SessionKey(project=PROJECT, name="one by one"))
    single: list[float] = []
    for number in range(_TIMED):
        came = messages(range(size + number, size + number + 1), size)
        start = time.perf_counter()
        await compactor.record(work, info, came)
        single.append(milliseconds(start))
    info, _ = await compactor.open_session(work, SessionKey(project=PROJECT, name="compressed"))
    await compactor.record(work, info, messages(range(400), 400))
    start = time.perf_counter()
    await compactor.compress(work, info, Ask(reason="to see how long it takes", force=True))
    return {
        "messages/s": rate,
        "record p50 ms": statistics.median(single),
        "record p95 ms": times(single)["p95 ms"],
        "compress ms": milliseconds(start),
    }


def measure_processes(address: str, folder: Path) -> Table:
    """How many messages a second processes record together, each in a session of one owner."""
    rows: list[dict[str, Any]] = []
    for number in _PROCESSES:
        for name in ("SQLite", "PostgreSQL"):
            place = str(folder / f"shared-{number}") if name == "SQLite" else address
            owner = f"b{uuid4().hex[:5]}"
            began = time.perf_counter()
            with multiprocessing.get_context("spawn").Pool(number) as pool:
                taken = pool.starmap(record_some, [(place, owner, one) for one in range(number)])
            progress(f"{name}: {number} processes took {time.perf_counter() - began:.1f} s")
            rows.append({"store": name, "processes": number, "messages/s": sum(taken)})
    return Table(
        title=f"Messages a second, each recorded in a transaction of its own, {_TIMED} a process",
        columns={"store": "", "processes": "d", "messages/s": ",.0f"},
        rows=rows,
    )


def record_some(place: str, owner: str, number: int) -> float:
    """The rate at which this process records."""

    async def run() -> float:
        if place.startswith("postgres"):
            work = open_on(await open_rows(place, owner))
        else:
            Path(place).mkdir(parents=True, exist_ok=True)
            work = open_on(await open_file(store_path(Path(place))))
        info, _ = await compactor.open_session(
            work, SessionKey(project=PROJECT, name=f"process {number}")
        )
        await compactor.record(work, info, messages(range(1), 1))
        began = time.perf_counter()
        for one in range(1, _TIMED + 1):
            await compactor.record(work, info, messages(range(one, one + 1), _TIMED))
        rate = _TIMED / (time.perf_counter() - began)
        await work.store.close()
        return rate

    return asyncio.run(run())


def analyze(address: str) -> None:
    """Have the planner know the tables, as autovacuum would in time."""
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(b"VACUUM ANALYZE")


def measure_room(address: str) -> Table:
    """The bytes of the tables for each message in them."""
    with psycopg.connect(address, autocommit=True) as connection:
        (total,) = connection.execute(b"SELECT count(*) FROM message").fetchone() or (0,)
        rows: list[dict[str, Any]] = []
        for table in ("message", "passage", "posting"):
            found = connection.execute(b"SELECT pg_total_relation_size(%s)", (table,)).fetchone()
            size = found[0] if found else 0
            rows.append({"table": table, "bytes/message": size / max(1, total)})
    return Table(
        title=f"Room in PostgreSQL, of all {total:,} messages there",
        columns={"table": "", "bytes/message": ",.0f"},
        rows=rows,
        notes=["posting is the index of words; a superuser's address is needed to count all rows"],
    )


async def close(both: dict[str, Workspace]) -> None:
    """Close both."""
    for one in both.values():
        await one.store.close()


def main(argv: list[str] | None = None) -> int:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--store", required=True, metavar="ADDRESS")
    parser.add_argument("--sizes", type=int, nargs="*", default=[100_000], metavar="N")
    parser.add_argument("--locomo", type=Path, metavar="FILE")
    parser.add_argument("--copies", type=int, default=1, metavar="N")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="of stores filled once")
    parser.add_argument("--no-processes", action="store_true")
    args = parser.parse_args(argv)
    address: str = args.store
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        if args.locomo is not None:
            show(asyncio.run(compare_answers(args.locomo, address, folder)))
        for size in args.sizes:
            for table in asyncio.run(measure(size, address, args.keep or folder, args.copies)):
                show(table)
        if not args.no_processes:
            show(measure_processes(address, folder))
        show(measure_room(address))
    return 0


def show(table: Table) -> None:
    """Print a table."""
    progress("")
    print(table_text(table), end="\n\n", flush=True)


if __name__ == "__main__":
    sys.exit(main())
