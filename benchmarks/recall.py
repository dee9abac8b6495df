"""Whether recall brings back what was asked for, and how long that takes as the archive grows.

Everything goes through the product's own path, `Compactor.record` and `Compactor.recall`, on a
real store in a temporary folder; speeds are compared within one run.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Callable, Collection, Generator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Literal, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))  # the other files of this folder

from benchmarks import rankings, texts
from benchmarks.chats import Chat, read_locomo, read_long, read_longmemeval
from benchmarks.rankings import MEASURES, Count, Found, Search, percentile
from mcp_compaction.compactor import Collaborators, Compactor
from mcp_compaction.core.policy import Policy
from mcp_compaction.counters.o200k import best_counter
from mcp_compaction.formats import Incoming, read_incoming
from mcp_compaction.model import SessionInfo
from mcp_compaction.ports import SessionKey, TokenCounter
from mcp_compaction.store.connect import store_path
from mcp_compaction.store.sqlite import open_store
from mcp_compaction.summarizers.extractive import ExtractiveSummarizer
from mcp_compaction.wiring import SystemClock

OURS = "mcp-compaction"
QUERIES = 20  # of each kind, at each scale
_NO_LIMIT = 1_000_000  # tokens of an answer that is to hold the whole ranking
_BATCH = 1_000
_SEED = 7

_EXAMPLES = """\
examples:
  python benchmarks/recall.py --locomo locomo10.json            does a question find its evidence?
  python benchmarks/recall.py --locomo locomo10.json --chats 1-3
  python benchmarks/recall.py --long chats.json.gz              the same of long messages
  python benchmarks/recall.py --scale 10000 100000              how fast, with so many messages?
  python benchmarks/recall.py --scale 1000000 --keep ~/stores   build once, measure often
  python benchmarks/recall.py --words                           Chinese, and identifiers with twins

measures:
  R@k      share of a question's evidence turns among the first k messages found
  hit@5    share of questions with any evidence turn among the first five
  MRR      one over the rank of the first evidence turn
  nDCG@10  how near to the top the evidence stands, 1 being the best order possible
  R@1kT    share of evidence turns in the first 1,000 tokens of the hits' texts
  answer   share of evidence turns in the answer that an agent gets, of 1,000 tokens with labels
"""


@dataclass(frozen=True, slots=True)
class Table:
    """What was measured, to be printed or given as JSON."""

    title: str
    columns: dict[str, str]  # each name and how its values are written
    rows: list[dict[str, Any]]
    notes: list[str] = field(default_factory=list[str])


def main(argv: Sequence[str] | None = None) -> None:
    """Run what was asked for and print it."""
    asked = parse(argv)
    tables = asyncio.run(run(asked))
    if asked.json:
        print(json.dumps([table_json(table) for table in tables], ensure_ascii=False, indent=1))
    else:
        print("\n\n".join(table_text(table) for table in tables))


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """The command line, read."""
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=_EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--locomo", type=Path, metavar="FILE", help="LoCoMo's chats as JSON")
    parser.add_argument(
        "--long",
        type=Path,
        metavar="FILE",
        help="long chats with an assistant (benchmarks/chats.py)",
    )
    parser.add_argument(
        "--longmemeval", type=Path, metavar="FILE", help="LongMemEval's questions as JSON"
    )
    parser.add_argument(
        "--chats", type=span, metavar="A-B", help="only these chats of the file, counted from 1"
    )
    parser.add_argument(
        "--scale", type=int, nargs="+", metavar="N", help="speeds in a store of N messages"
    )
    parser.add_argument(
        "--keep", type=Path, metavar="DIR", help="keep the stores of --scale there, and use them"
    )
    parser.add_argument(
        "--words",
        type=int,
        nargs="?",
        const=1_500,
        metavar="N",
        help="Chinese in N paragraphs (1,500) and identifiers in a coding session to match",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    asked = parser.parse_args(argv)
    chats = (asked.locomo, asked.long, asked.longmemeval)
    if not any(chats) and asked.scale is None and asked.words is None:
        parser.error("say what to measure: --locomo FILE, --scale N or --words")
    return asked


def span(text: str) -> range:
    """`2` or `1-3` as places of chats."""
    first, _, last = text.partition("-")
    return range(int(first) - 1, int(last or first))


async def run(asked: argparse.Namespace) -> list[Table]:
    """The tables of everything that was asked for."""
    tables: list[Table] = []
    for what, path, read in (
        ("LoCoMo", asked.locomo, read_locomo),
        ("Long chats", asked.long, read_long),
        ("LongMemEval", asked.longmemeval, read_longmemeval),
    ):
        if path is not None:
            tables += await measure_chats(what, read(path, asked.chats))
    for size in asked.scale or ():
        tables += await measure_scale(size, asked.keep)
    if asked.words is not None:
        tables += await measure_words(asked.words)
    return tables


# Chats

_MEASURES = (*MEASURES, "answer")
_COLUMNS = {"questions": ",d"} | dict.fromkeys(_MEASURES, ".3f")
_CHUNK = 6  # turns, as others cut chats to search them


class Asked(NamedTuple):
    """How one question went."""

    kind: str
    scores: dict[str, float]
    ms: float
    groups: dict[str, float]  # by session and by chunk, for ours


async def measure_chats(what: str, chats: Sequence[Chat]) -> list[Table]:
    """Each question in its own chat: ours and the plain searches."""
    count = cache(counter().count)
    results = {OURS: await ask_ours(chats, count)}
    searches = {"FTS5, words OR-ed": rankings.fts5_words} | rankings.installed()
    for name, make in searches.items():
        results[name] = ask_plain(chats, make, count)
    missing = [name for name in rankings.PEERS if name not in searches]
    turns = sum(len(chat.lines) for chat in chats)
    ours = results[OURS]
    kinds = list(dict.fromkeys(one.kind for one in ours))
    return [
        Table(
            title=f"{what}: {len(chats)} chats, {turns:,} turns, all in one store",
            columns={"search": ""} | _COLUMNS | {"p50 ms": ".2f", "p95 ms": ".2f"},
            rows=[
                {"search": name, "questions": len(asked)}
                | mean([one.scores for one in asked])
                | times([one.ms for one in asked])
                for name, asked in results.items()
            ],
            notes=[f"not installed, so not compared: {', '.join(missing)}"] if missing else [],
        ),
        Table(
            title=f"{OURS} by kind of question",
            columns={"kind": ""} | _COLUMNS,
            rows=[
                {"kind": kind, "questions": len(of_kind)} | mean([one.scores for one in of_kind])
                for kind in kinds
                if (of_kind := [one for one in ours if one.kind == kind])
            ],
        ),
        Table(
            title=f"{OURS} in the units of others: any or all of the evidence among the first five",
            columns=dict.fromkeys(ours[0].groups, ".3f"),
            rows=[mean([one.groups for one in ours])],
        ),
    ]


def mean(scores: Sequence[dict[str, float]]) -> dict[str, float]:
    """The mean of each measure over the questions."""
    return {name: sum(one[name] for one in scores) / len(scores) for name in scores[0]}


def measure_groups(places: Sequence[int], wanted: Collection[int], chat: Chat) -> dict[str, float]:
    """Whether any and all of the evidence is among the first five sessions, and chunks of turns."""
    starts = {number: chat.sessions.index(number) for number in {*chat.sessions}}
    units = {
        "session": list(chat.sessions),
        f"{_CHUNK} turns": [
            starts[number] * 1_000 + (place - starts[number]) // _CHUNK
            for place, number in enumerate(chat.sessions)
        ],
    }
    scores: dict[str, float] = {}
    for name, unit_of in units.items():
        first = list(dict.fromkeys(unit_of[place] for place in places))[:5]
        right = {unit_of[place] for place in wanted}
        scores[f"{name}, any@5"] = float(not right.isdisjoint(first))
        scores[f"{name}, all@5"] = float(right <= {*first})
    return scores


async def ask_ours(chats: Sequence[Chat], count: Count) -> list[Asked]:
    """Each question with our recall; timed at the default size, ranked without a limit."""
    asked: list[Asked] = []
    async with temporary_store() as compactor:
        recorded = [await record(compactor, chat.name, chat.came) for chat in chats]
        for chat, (info, places) in zip(chats, recorded, strict=True):
            for query in chat.queries:
                began = time.perf_counter()
                default = await compactor.recall(info, query.text)
                ms = milliseconds(began)
                answer = await compactor.recall(info, query.text, max_tokens=_NO_LIMIT)
                found = [Found(places[hit.ref], hit.text) for hit in answer.hits]
                scores = rankings.measure(found, query.wanted, count)
                shown = {places[hit.ref] for hit in default.hits}
                scores["answer"] = rankings.share_among(shown, query.wanted)
                order = [hit.place for hit in found]
                groups = measure_groups(order, query.wanted, chat)
                asked.append(Asked(query.kind, scores, ms, groups))
    return asked


def ask_plain(
    chats: Sequence[Chat], make: Callable[[Sequence[str]], Search], count: Count
) -> list[Asked]:
    """Each question with a plain search over the very lines that we record."""
    asked: list[Asked] = []
    for chat in chats:
        search = make(chat.lines)
        for query in chat.queries:
            began = time.perf_counter()
            places = search(query.text)
            ms = milliseconds(began)
            found = [Found(place, chat.lines[place]) for place in places]
            scores = rankings.measure(found, query.wanted, count)
            scores["answer"] = float("nan")  # a plain search writes none
            asked.append(Asked(query.kind, scores, ms, {}))
    return asked


# Scale

_START = datetime(2026, 1, 1, tzinfo=UTC)
_DAYS = 300
_LATE = _START + timedelta(days=270)  # the last tenth
_BUILT = "built.json"
_PROJECT, _SESSION = "/project", "long"


class Probe(NamedTuple):
    """One question at scale."""

    text: str
    scope: Literal["session", "project"] = "session"
    is_ref: bool = False


async def measure_scale(size: int, keep: Path | None) -> list[Table]:
    """Build a store of so many messages, or take the one that is there, and ask it."""
    with folder_for(size, keep) as folder:
        built = await build(folder, size)
        compactor = await open_at(folder)
        try:
            rows = await ask_at_scale(compactor, size)
        finally:
            await compactor.close()
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
            title=f"Recall in it, {QUERIES} queries of each kind",
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
    compactor = await open_at(folder)
    seconds = 0.0
    try:
        for batch, numbers in batches(size):
            info, _ = await compactor.open(home_of(batch))
            came = messages(numbers, size)
            began = time.perf_counter()
            await compactor.record(info, came)
            seconds += time.perf_counter() - began
            progress(f"recording: {numbers[-1] + 1:,} of {size:,}")
    finally:
        await compactor.close()
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
            return SessionKey(project=_PROJECT, name=f"other-{batch // 8 % 10}")
        case 3 | 7:
            return SessionKey(project=f"/elsewhere-{batch // 4 % 4}", name="some")
        case _:
            return SessionKey(project=_PROJECT, name=_SESSION)


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


async def ask_at_scale(compactor: Compactor, size: int) -> list[dict[str, Any]]:
    """Ask the long session everything, kind by kind."""
    info = await compactor.find(_PROJECT, _SESSION)
    await compactor.recall(info, "warm")
    rows: list[dict[str, Any]] = []
    for kind, probes in probes_for(size, info.messages).items():
        progress(f"asking: {kind}")
        ms: list[float] = []
        busy: list[float] = []
        hits: list[int] = []
        for probe in probes:
            began, began_work = time.perf_counter(), time.process_time()
            if probe.is_ref:
                hits.append(len(await compactor.recall_refs(info, probe.text)))
            else:
                answer = await compactor.recall(info, probe.text, scope=probe.scope)
                hits.append(len(answer.hits))
            ms.append(milliseconds(began))
            busy.append((time.process_time() - began_work) * 1_000)
        at_work = {"p50 CPU": percentile(busy, 50), "p95 CPU": percentile(busy, 95)}
        rows.append({"query": kind} | times(ms) | at_work | {"hits": statistics.median(hits)})
    progress("")
    return rows


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


# Words


async def measure_words(size: int) -> list[Table]:
    """What other tokenizers get wrong: text without spaces, and names that are nearly the same."""
    return [
        await measure_chinese(size, max(20, min(400, size // 3))),
        await measure_identifiers(max(6, size // 15)),
    ]


async def measure_chinese(size: int, queries: int) -> Table:
    """Four characters, and whether their paragraph is among the first five messages."""
    said = texts.paragraphs(size)
    pieces = texts.pieces(said, queries)
    found = await first_places(said, [piece.text for piece in pieces])
    right = {
        name: sum(
            piece.place in places[:5] for piece, places in zip(pieces, all_places, strict=True)
        )
        for name, all_places in found.items()
    }
    return Table(
        title=f"Chinese: the right one of {size:,} paragraphs among the first five",
        columns={"search": "", "queries": ",d", "right": ".3f"},
        rows=[
            {"search": name, "queries": queries, "right": number / queries}
            for name, number in right.items()
        ],
    )


async def measure_identifiers(families: int) -> Table:
    """Identifiers, and whether the first message found holds just them and not a twin."""
    made = texts.families(families)
    said = texts.coding_session(made)
    asked = [one for family in made for one in family.asked]
    found = await first_places(said, [one.query for one in asked])

    def right(name: str, kind: str) -> float:
        pairs = zip(asked, found[name], strict=True)
        of_kind = [(one, places) for one, places in pairs if one.kind == kind]
        good = sum(bool(p and one.right.search(said[p[0]])) for one, p in of_kind)
        return good / len(of_kind)

    return Table(
        title=f"Identifiers with near twins in {len(said):,} messages: the first hit holds just it",
        columns={"query": "", "queries": ",d"} | dict.fromkeys(found, ".3f"),
        rows=[
            {"query": kind, "queries": sum(one.kind == kind for one in asked)}
            | {name: right(name, kind) for name in found}
            for kind in sorted({one.kind for one in asked})
        ],
    )


async def first_places(said: Sequence[str], queries: Sequence[str]) -> dict[str, list[list[int]]]:
    """For each search and query the places of the messages found, the best first."""
    ours: list[list[int]] = []
    roles = ("user", "assistant")
    came = read_incoming([{"role": roles[n % 2], "content": text} for n, text in enumerate(said)])
    async with temporary_store() as compactor:
        info, places = await record(compactor, "words", came)
        for query in queries:
            answer = await compactor.recall(info, query, max_tokens=_NO_LIMIT)
            ours.append(list(dict.fromkeys(places[hit.ref] for hit in answer.hits)))
    words, trigrams = rankings.fts5_words(said), rankings.fts5_trigrams(said)
    return {
        OURS: ours,
        "FTS5 words": [words(query) for query in queries],
        "FTS5 trigrams": [trigrams(query) for query in queries],
    }


# What they share


@asynccontextmanager
async def temporary_store() -> AsyncGenerator[Compactor]:
    """A compactor on a store that is gone afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        compactor = await open_at(Path(folder))
        try:
            yield compactor
        finally:
            await compactor.close()


async def open_at(folder: Path) -> Compactor:
    """A compactor on the store in that folder."""
    return Compactor(
        Collaborators(
            store=await open_store(store_path(folder)),
            summarizer=ExtractiveSummarizer(),
            counter=counter(),
            clock=SystemClock(),
            policy=Policy(),
        )
    )


@cache
def counter() -> TokenCounter:
    """One for all: loading its ranks takes longer than a hundred recalls."""
    ready = best_counter()
    ready.count("they are loaded now, before anything is timed")
    return ready


async def record(
    compactor: Compactor, name: str, came: Incoming
) -> tuple[SessionInfo, dict[str, int]]:
    """Record a session; with the place of each ref in it."""
    info, _ = await compactor.open(SessionKey(project=_PROJECT, name=name))
    recorded = await compactor.record(info, came)
    return info, {f"m{seq}": place for place, seq in enumerate(recorded.seqs)}


def milliseconds(began: float) -> float:
    """How long it is since then."""
    return (time.perf_counter() - began) * 1_000


def times(ms: Sequence[float]) -> dict[str, float]:
    """The middle and the slow end."""
    return {"p50 ms": percentile(ms, 50), "p95 ms": percentile(ms, 95)}


def progress(text: str) -> None:
    """What is being done, on a line of its own that the next one replaces."""
    print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def table_json(table: Table) -> dict[str, Any]:
    """A table as JSON, its values unrounded."""
    return {"title": table.title.replace("\n", " "), "rows": table.rows, "notes": table.notes}


def table_text(table: Table) -> str:
    """A table as text: names to the left, numbers to the right."""
    lines = [list(table.columns)]
    for row in table.rows:
        lines.append([format(row[name], how) for name, how in table.columns.items()])
    widths = [max(len(line[n]) for line in lines) for n in range(len(table.columns))]
    shown = [
        "  ".join(
            cell.rjust(width) if how else cell.ljust(width)
            for cell, width, how in zip(line, widths, table.columns.values(), strict=True)
        ).rstrip()
        for line in lines
    ]
    return "\n".join([table.title, *(f"  {line}" for line in [*shown, *table.notes])])


if __name__ == "__main__":
    main()
