"""Cut the power: what was synced stays, and any part of what was not may stay, torn or whole.

Usage: python power.py FOLDER CUTS. Prints one JSON object with the findings. It runs itself again,
with its writes and syncs logged, to have a store to cut the power of.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
import struct
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from given_store import (
    NOW,
    add_pin,
    batch,
    compaction,
    damage,
    here,
    history,
    new_session,
    rows,
    said,
    with_store,
)

from mcp_compaction.model import NewPin
from mcp_compaction.store.sqlite import SqliteStore

TURNS = 60
SECTOR = 512
CANARY = "xylophone-canary-4711"


class Write(NamedTuple):
    """One entry of the log of writes."""

    ends: int  # where in the log
    operation: str  # W write, T truncate, S sync
    file: str  # d database, w log
    offset: int
    data: bytes


class Promise(NamedTuple):
    """What a caller was told to be kept when the log of writes had a length."""

    told_at: int
    sql: str
    expected: str


# The store that is written


async def write(store: SqliteStore) -> None:
    """Record, compact, pin and forget, and note in the end what was told when."""
    chance = random.Random(1)
    log = Path(os.environ["WRITES_LOG"])
    promises: list[Promise] = []

    def told(sql: str, expected: str) -> None:
        promises.append(Promise(log.stat().st_size, sql, expected))

    session = await new_session(store)
    await store.append(session, batch(*history(*"abcdef")), NOW)
    for turn in range(TURNS):
        text = f"{CANARY} {turn} " + "word " * chance.randint(1, 800)
        done = await store.append(session, batch(said(text)), NOW)
        kept = turn % 20 != 19
        if kept:
            told(f"SELECT raw FROM message WHERE seq = {done.seqs[0]}", said(text).raw)
        else:
            await store.forget(here(session), done.seqs, NOW)
            told(f"SELECT instr(raw, '{CANARY}') FROM message WHERE seq = {done.seqs[0]}", "0")
        if turn % 8 == 7:
            base = (await store.load(session, NOW)).view.version
            assert await store.save(session, compaction(base=base, number=base + 1))
            told(f"SELECT count(*) FROM receipt WHERE number = {base + 1}", "1")
        if turn % 5 == 4:
            pin = NewPin(text=f"rule {turn}", kind="note", scope="session", author="agent")
            added = await add_pin(store, session, pin, NOW)
            told(f"SELECT text FROM pin WHERE number = {added.number}", pin.text)
    Path(os.environ["PROMISES"]).write_text(json.dumps(promises))


def logged(folder: Path) -> tuple[list[Write], list[Promise]]:
    """The writes and syncs of a process that used a store, and what it was told."""
    library, log = folder / "watch_writes.so", folder / "writes"
    source = Path(__file__).with_name("watch_writes.c")
    compiling = ["cc", "-shared", "-fPIC", "-o", str(library), str(source), "-ldl", "-lpthread"]
    subprocess.run(compiling, check=True)
    told = folder / "promises"
    logging = {"LD_PRELOAD": str(library), "WRITES_LOG": str(log), "PROMISES": str(told)}
    subprocess.run(
        [sys.executable, __file__, str(folder)], check=True, env={**os.environ, **logging}
    )
    return list(_entries(log.read_bytes())), [Promise(*p) for p in json.loads(told.read_text())]


def _entries(log: bytes) -> Iterator[Write]:
    at = 0
    while at < len(log):
        operation, file, offset, length = struct.unpack_from("<ccQQ", log, at)
        at += 18
        data = log[at : at + length]
        at += length
        yield Write(at, operation.decode(), file.decode(), offset, data)


# What a cut leaves


class Disk:
    """The two files of a store as far as they are surely written, and what may be written."""

    def __init__(self) -> None:
        self.files = {"d": bytearray(), "w": bytearray()}
        self.pending: dict[str, list[Write]] = {"d": [], "w": []}

    def take(self, entry: Write) -> None:
        """Go on by one entry of the log."""
        if entry.operation != "S":
            self.pending[entry.file].append(entry)
            return
        for one in self.pending[entry.file]:
            _carry_out(self.files[entry.file], one)
        self.pending[entry.file] = []

    def cut(self, chance: random.Random) -> tuple[dict[str, bytearray], int]:
        """What the disk may hold after a power cut now, and how many writes are torn."""
        left = {name: bytearray(content) for name, content in self.files.items()}
        torn = 0
        for name, content in left.items():
            likelihood = chance.choice((0.0, 0.5, 0.5, 1.0))
            for one in self.pending[name]:
                if chance.random() < likelihood:
                    _carry_out(content, one)
                elif likelihood and one.operation == "W" and len(one.data) > SECTOR:
                    torn += 1
                    whole = chance.randrange(1, len(one.data) // SECTOR + 1) * SECTOR
                    _carry_out(content, one._replace(data=one.data[:whole]))
        return left, torn


def _carry_out(content: bytearray, entry: Write) -> None:
    if len(content) < entry.offset:
        content.extend(bytes(entry.offset - len(content)))
    if entry.operation == "T":
        del content[entry.offset :]
    else:
        content[entry.offset : entry.offset + len(entry.data)] = entry.data


def cut_power(folder: Path, cuts: int) -> dict[str, int]:
    """Cut the power at random moments, and look at what is left."""
    entries, promises = logged(folder)
    chance = random.Random(2)
    disk = Disk()
    moments = sorted(chance.randrange(len(entries)) for _ in range(cuts))
    found = Counter[str]()
    done = 0
    for moment in moments:
        for entry in entries[done : moment + 1]:
            disk.take(entry)
        done = max(done, moment + 1)
        left, torn = disk.cut(chance)
        due = [one for one in promises if one.told_at <= entries[moment].ends]
        lost, unsound = _look(folder / "cut" / "store.db", left, due)
        found += Counter(cuts=1, torn=torn, promised=len(due), lost=lost, unsound=unsound)
    return {"lost": 0, "unsound": 0, **found}


_HALF = (
    "SELECT name FROM session WHERE view_version !="
    " (SELECT coalesce(max(version), 0) FROM view WHERE session = session.id)"
    " UNION ALL SELECT number FROM receipt WHERE number NOT IN (SELECT number FROM digest)"
)


def _look(path: Path, left: dict[str, bytearray], due: list[Promise]) -> tuple[int, int]:
    """How many promises are broken, and 1 if the store is damaged or half written."""
    shutil.rmtree(path.parent, ignore_errors=True)
    path.parent.mkdir(mode=0o700)
    for suffix, name in (("", "d"), ("-wal", "w")):
        file = path.with_name(path.name + suffix)
        file.write_bytes(left[name])
        file.chmod(0o600)
    if not due and not rows(path, "SELECT 1 FROM sqlite_master WHERE name = 'session'"):
        return 0, 0
    try:
        # A purge that was cut short is finished by the next start.
        problems = [line for line in damage(path) if not line.startswith("Forgotten bytes")]
        broken = [one for one in due if [(one.expected,)] != _as_text(rows(path, one.sql))]
        return len(broken), int(bool(problems or rows(path, _HALF)))
    except sqlite3.DatabaseError:
        return 0, 1


def _as_text(found: list[tuple[object, ...]]) -> list[tuple[str, ...]]:
    return [tuple(str(value) for value in row) for row in found]


if __name__ == "__main__":
    place = Path(sys.argv[1])
    place.chmod(0o700)
    if "WRITES_LOG" in os.environ:
        with_store(place / "store.db", write)
    else:
        sys.stdout.write(json.dumps(cut_power(place, int(sys.argv[2]))))
