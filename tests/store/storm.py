"""Kill writers by the hundred while others write, compact, pin, read and forget; a script.

Usage: python storm.py FOLDER KILLS. Prints one JSON object with the findings.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from given_store import (
    NOW,
    PROJECT,
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
from killing import exit_status, in_child

from mcp_compaction.errors import StoreBusy
from mcp_compaction.model import NewPin
from mcp_compaction.ports import SearchQuery, SessionKey
from mcp_compaction.store.sqlite import SqliteStore

WRITERS = 15  # and one that forgets
KILLS_TO_A_FORGET = 50
DEADLINE = 1_800.0  # seconds; on a busy machine the lock may go to the others for minutes
SHARED = SessionKey(project=PROJECT, name="shared")

Acknowledged = tuple[str, int, str]  # the session's name, the message's number, its text


def storm(folder: Path, kills: int) -> dict[str, object]:
    """Kill one of sixteen processes after another, and look at what is left."""
    path = folder / "store.db"
    with_store(path, lambda store: new_session(store, SHARED))
    chance = random.Random(20261115)
    writers = {number: _start(path, number) for number in range(WRITERS)}
    forgotten: list[Acknowledged] = []
    forgetters: list[int] = []
    errors = 0
    for done in range(1, kills + 1):
        time.sleep(chance.uniform(0, 0.1))
        number = chance.randrange(WRITERS)
        os.kill(writers[number], signal.SIGKILL)
        errors += exit_status(writers[number]) != -signal.SIGKILL
        writers[number] = _start(path, number)
        if done % KILLS_TO_A_FORGET == 0:
            known = [one for one in acknowledged(folder) if one[0] == SHARED.name]
            forgotten.append(chance.choice(known))
            forgetters.append(_start_forgetting(path, forgotten[-1][1]))
    errors += sum(exit_status(pid) != 0 for pid in forgetters)
    for pid in writers.values():
        os.kill(pid, signal.SIGKILL)
        errors += exit_status(pid) != -signal.SIGKILL
    return {
        "kills": kills,
        "forgets": len(forgotten),
        "errors": errors,
        "slowest": max(float(text) for text in _lines(folder, "waits-*")),
        **_what_is_left(path, forgotten),
    }


def acknowledged(folder: Path) -> Iterator[Acknowledged]:
    """All messages whose writers were told that they are kept."""
    for line in _lines(folder, "acks-*"):
        name, seq, text = json.loads(line)
        yield name, seq, text


def _lines(folder: Path, pattern: str) -> Iterator[str]:
    for file in folder.glob(pattern):
        # A writer that was killed may leave half of its last line.
        yield from file.read_text().split("\n")[:-1]


def _start(path: Path, number: int) -> int:
    return in_child(lambda: with_store(path, lambda store: _work_for_ever(store, number), DEADLINE))


async def _work_for_ever(store: SqliteStore, number: int) -> None:
    chance = random.Random(os.getpid())
    own = SessionKey(project=PROJECT, name=f"own {number}")
    sessions = {key.name: await new_session(store, key) for key in (SHARED, own)}
    await store.append(sessions[own.name], batch(*history(*"abcdef"), after=0), NOW)
    folder = store.path.parent
    acks = os.open(folder / f"acks-{number}", os.O_CREAT | os.O_APPEND | os.O_WRONLY)
    waits = os.open(folder / f"waits-{number}", os.O_CREAT | os.O_APPEND | os.O_WRONLY)
    while True:
        name = chance.choice(list(sessions))
        session = sessions[name]
        began = time.monotonic()
        match chance.randrange(10):
            case 0:
                base = (await store.load(sessions[own.name], NOW)).view.version
                await store.save(sessions[own.name], compaction(base=base, number=base + 1))
            case 1:
                pin = NewPin(text=f"pin {began}", kind="note", scope="session", author="agent")
                await add_pin(store, session, pin, NOW)
            case 2:
                await store.find(here(session), SearchQuery(terms=("word", str(os.getpid()))))
            case _:
                texts = [_text(chance) for _ in range(chance.randint(1, 4))]
                done = await store.append(session, batch(*map(said, texts)), NOW)
                told = zip(done.seqs, texts, strict=True)
                lines = [json.dumps((name, seq, text)) + "\n" for seq, text in told]
                os.write(acks, "".join(lines).encode())
        os.write(waits, f"{time.monotonic() - began:.3f}\n".encode())


def _text(chance: random.Random) -> str:
    return f"x{chance.getrandbits(64):016x} " + "word émoji 😀 " * chance.randint(1, 60)


def _start_forgetting(path: Path, seq: int) -> int:
    async def forget(store: SqliteStore) -> None:
        # One of the others may just be reading; the next write removes the bytes then.
        with suppress(StoreBusy):
            await store.forget(here(await new_session(store, SHARED)), (seq,), NOW)

    return in_child(lambda: with_store(path, forget, DEADLINE))


def _what_is_left(path: Path, forgotten: list[Acknowledged]) -> dict[str, object]:
    with_store(path, new_session)  # finishes what was left to purge
    gone = {(name, seq) for name, seq, _ in forgotten}
    listed = rows(
        path, "SELECT name, seq, raw FROM message JOIN session ON session.id = message.session"
    )
    kept = {(str(name), int(str(seq))): str(raw) for name, seq, raw in listed}
    acks = list(acknowledged(path.parent))
    lost = [
        (name, seq)
        for name, seq, text in acks
        if (name, seq) not in gone and kept.get((name, seq)) != said(text).raw
    ]
    stored = b"".join(file.read_bytes() for file in path.parent.glob("store.db*"))
    half = (
        "SELECT count(*) FROM receipt LEFT JOIN view ON view.session = receipt.session"
        " AND view.version = base_version + 1 LEFT JOIN digest"
        " ON digest.session = receipt.session AND digest.number = receipt.number"
        " WHERE view.version IS NULL OR digest.number IS NULL"
    )
    return {
        "acknowledged": len(acks),
        "lost": len(lost),
        "half_compactions": rows(path, half)[0][0],
        "compactions": rows(path, "SELECT count(*) FROM receipt")[0][0],
        "forgotten_left": sum(text.split()[0].encode() in stored for _, _, text in forgotten),
        "damage": damage(path),
    }


if __name__ == "__main__":
    place = Path(sys.argv[1])
    place.chmod(0o700)
    with_store(place / "warm.db", new_session)  # so that no child has to import anything
    sys.stdout.write(json.dumps(storm(place, int(sys.argv[2]))))
