"""How long a recall takes as the archive grows: in generated messages, by kind of query."""

from __future__ import annotations

import json
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any, Literal, NamedTuple

from benchmarks import texts
from benchmarks.stores import PROJECT, open_at
from benchmarks.tables import Table, milliseconds, progress, times
from mcp_compaction import compactor
from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.formats import Incoming, read_incoming
from mcp_compaction.model import SessionInfo
from mcp_compaction.ports import SessionKey

QUERIES = 20  # of each kind, at each scale
_BATCH = 1_000
_SEED = 7
_START = datetime(2026, 1, 1, tzinfo=UTC)
_DAYS = 300
_LATE = _START + timedelta(days=270)  # the last tenth
_BUILT = "built.json"
_SESSION = "long"


class Probe(NamedTuple):
    """One question at scale."""

    text: str
    scope: Literal["session", "project"] = "session"
    is_ref: bool = False


async def measure_scale(size: int, keep: Path | None, rounds: int) -> list[Table]:
    """Build a store of so many messages, or take the one that is there, and ask it."""
    with folder_for(size, keep) as folder:
        built = await build(folder, size)
        work = await open_at(folder)
        try:
            rows = await ask_at_scale(work, size, rounds)
        finally:
            await work.store.close()
    peak = peak_mib()
    return [
        Table(
            title=f"A store of {size:,} messages of about 200 characters: half in the session that "
            "is asked,\na quarter in others of its project, a quarter in other projects, in turns",
            columns={"messages": ",d", "messages/s": ",.0f", "MiB on disk": ",.1f"}
            | {"bytes/message": ",.0f", "peak MiB, built": ",.0f", "peak MiB, at the end": ",.0f"},
            rows=[built | {"peak MiB, at the end": peak}],
        ),
        Table(
            title=f"Recall in it, {QUERIES} queries of each kind"
            + (f", of each the fastest of {rounds} askings" if rounds > 1 else ""),
            columns={"query": ""}
            | dict.fromkeys(("p50 ms", "p95 ms", "p50 CPU", "p95 CPU"), ",.2f")
            | {"hits": ".0f"},
            rows=rows,
            notes=[
                "CPU: milliseconds of processor time, which other programs delay less",
                "hits: the median number in an answer of the default size",
            ],
        ),
    ]


async def build(folder: Path, size: int) -> dict[str, Any]:
    """Record the messages in batches, and say what that took; once a folder."""
    told = folder / _BUILT
    if told.exists():
        return json.loads(told.read_text(encoding="utf-8"))
    if any(folder.iterdir()):
        raise SystemExit(f"{folder} holds a store that was not finished; remove it and run again.")
    work = await open_at(folder)
    seconds = 0.0
    try:
        for batch, numbers in batches(size):
            info, _ = await compactor.open_session(work, home_of(batch))
            came = messages(numbers, size)
            began = time.perf_counter()
            await compactor.record(work, info, came)
            seconds += time.perf_counter() - began
            progress(f"recording: {numbers[-1] + 1:,} of {size:,}")
    finally:
        await work.store.close()
    disk = sum(file.stat().st_size for file in folder.iterdir())
    built: dict[str, Any] = {
        "messages": size,
        "messages/s": size / seconds,
        "MiB on disk": disk / 2**20,
        "bytes/message": disk / size,
        "peak MiB, built": peak_mib(),
    }
    told.write_text(json.dumps(built), encoding="utf-8")
    return built


def batches(size: int) -> Iterator[tuple[int, range]]:
    """The numbers of the messages, a thousand at a time, with the number of the batch."""
    step = batch_size(size)
    for number, start in enumerate(range(0, size, step)):
        yield number, range(start, min(start + step, size))


def batch_size(size: int) -> int:
    """A thousand, or so few that a small store, too, has something of everything."""
    return max(1, min(_BATCH, size // 16))


def home_of(batch: int) -> SessionKey:
    """Where a batch goes: half into the long session, the rest elsewhere."""
    match batch % 8:
        case 1 | 5:
            return SessionKey(project=PROJECT, name=f"other-{batch // 8 % 10}")
        case 3 | 7:
            return SessionKey(project=f"/elsewhere-{batch // 4 % 4}", name="some")
        case _:
            return SessionKey(project=PROJECT, name=_SESSION)


def messages(numbers: range, size: int) -> Incoming:
    """Generated messages by user and assistant in turn, over three hundred days."""
    came = read_incoming(
        [
            {"role": "assistant" if number % 2 else "user", "content": texts.message(number)}
            for number in numbers
        ]
    )
    dated = tuple(
        message.model_copy(update={"at": _START + timedelta(days=_DAYS * number / size)})
        for number, message in zip(numbers, came.messages, strict=True)
    )
    return came.model_copy(update={"messages": dated})


async def ask_at_scale(work: Workspace, size: int, rounds: int) -> list[dict[str, Any]]:
    """Ask the long session everything, kind by kind, so many times; the fastest of them counts."""
    info = await compactor.find_session(work, PROJECT, _SESSION)
    await compactor.recall(work, info, "warm")
    kinds = probes_for(size, info.messages)
    taken: dict[str, list[tuple[Taken, ...]]] = {kind: [] for kind in kinds}
    for number in range(rounds):
        for kind, probes in kinds.items():
            progress(f"asking: {kind}, round {number + 1} of {rounds}")
            taken[kind].append(tuple([await ask(work, info, probe) for probe in probes]))
    progress("")
    return [
        {"query": kind, "hits": statistics.median(one.hits for one in asked[0])}
        | times([min(one.ms for one in again) for again in zip(*asked, strict=True)])
        | times([min(one.cpu for one in again) for again in zip(*asked, strict=True)], "CPU")
        for kind, asked in taken.items()
    ]


class Taken(NamedTuple):
    """What one asking took, and how many passages its answer had."""

    ms: float
    cpu: float
    hits: int


async def ask(work: Workspace, info: SessionInfo, probe: Probe) -> Taken:
    """Ask one question, and time it."""
    began, began_work = time.perf_counter(), time.process_time()
    if probe.is_ref:
        hits = len(await compactor.recall_refs(work, info, probe.text))
    else:
        hits = len((await compactor.recall(work, info, probe.text, scope=probe.scope)).hits)
    return Taken(milliseconds(began), (time.process_time() - began_work) * 1_000, hits)


def probes_for(size: int, recorded: int) -> dict[str, list[Probe]]:
    """Twenty questions of every kind, about messages that are in the long session."""
    random = Random(_SEED)
    here = [n for b, numbers in batches(size) if home_of(b).name == _SESSION for n in numbers]
    common, middle = texts.LATIN.words[:10], texts.LATIN.words[50:5_000]

    def of(rest: int, among: int) -> Iterator[int]:
        return iter(random.choices([n for n in here if n % among == rest], k=QUERIES))

    def some(words: Sequence[str], count: int) -> list[str]:
        return [" ".join(random.sample(words, count)) for _ in range(QUERIES)]

    def said(number: int) -> str:
        return re.findall(r"[\u4e00-\u9fff]{4}", texts.message(number))[0]

    four = some(middle, 4)
    questions = [" ".join(texts.LATIN.draw(random, 12)) + "?" for _ in range(QUERIES)]
    plain: dict[str, list[str]] = {
        "one rare word": [texts.rarest_word(n) for n in of(2, 5)],
        "one very common word": some(common, 1),
        "four words": four,
        "a question of twelve words": questions,
        "what did we decide about a word": [
            f"what did we decide about {w}" for w in some(middle, 1)
        ],
        "an identifier: a path": [texts.path_of(n) for n in of(0, 5)],
        "ten characters of a hash": [texts.hash_of(n)[:10] for n in of(1, 5)],
        "four Chinese characters": [said(n) for n in of(7, 20)],
        "nothing that matches": [f"xq{n}w yk{n}x" for n in range(QUERIES)],
        "four words, role:user": [f"{text} role:user" for text in four],
        f"four words, since:{_LATE:%Y-%m-%d}": [f"{text} since:{_LATE:%Y-%m-%d}" for text in four],
    }
    refs = [f"m{random.randint(1, recorded)}" for _ in range(QUERIES)]
    return {kind: [Probe(text) for text in asked] for kind, asked in plain.items()} | {
        "a ref": [Probe(ref, is_ref=True) for ref in refs],
        "four words, the whole project": [Probe(text, "project") for text in four],
        "twelve words, the whole project": [Probe(text, "project") for text in questions],
    }


@contextmanager
def folder_for(size: int, keep: Path | None) -> Generator[Path]:
    """A folder for a store of that size: one to keep, or a temporary one."""
    if keep is not None:
        folder = keep.expanduser() / f"{size}"
        folder.mkdir(parents=True, exist_ok=True)
        yield folder
        return
    with tempfile.TemporaryDirectory() as temporary:
        yield Path(temporary)


def peak_mib() -> float:
    """The most memory this process has used so far."""
    if sys.platform == "win32":
        return float("nan")
    import resource

    unit = 1 if sys.platform == "darwin" else 1_024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20
