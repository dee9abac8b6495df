"""Whether recall brings back what was asked for, and how long that takes as the archive grows.

Everything goes through the product's own path, `compactor.record` and `compactor.recall`, on a
real store in a temporary folder; speeds are compared within one run.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Callable, Collection, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from mcp_compaction import compactor

sys.path.insert(0, str(Path(__file__).parents[1]))  # the other files of this folder

from benchmarks import rankings, texts
from benchmarks.chats import Chat, read_locomo, read_long, read_longmemeval
from benchmarks.rankings import MEASURES, Count, Found, Search
from benchmarks.recall_at_scale import measure_scale
from benchmarks.stores import counter, record, temporary_store
from benchmarks.tables import Table, milliseconds, table_json, table_text, times
from mcp_compaction.formats import read_incoming

OURS = "mcp-compaction"
_NO_LIMIT = 1_000_000  # tokens of an answer that is to hold the whole ranking

_EXAMPLES = """\
examples:
  python benchmarks/recall.py --locomo locomo10.json            does a question find its evidence?
  python benchmarks/recall.py --locomo locomo10.json --chats 1-3
  python benchmarks/recall.py --long chats.json.gz              the same of long messages
  python benchmarks/recall.py --scale 10000 100000              how fast, with so many messages?
  python benchmarks/recall.py --scale 1000000 --keep ~/stores   build once, measure often
  python benchmarks/recall.py --scale 100000 --rounds 5         on a machine that others use too
  python benchmarks/recall.py --words                           Chinese, and identifiers with twins

measures:
  R@k      share of a question's evidence turns among the first k messages found
  hit@5    share of questions with any evidence turn among the first five
  MRR      one over the rank of the first evidence turn
  nDCG@10  how near to the top the evidence stands, 1 being the best order possible
  R@1kT    share of evidence turns in the first 1,000 tokens of the hits' texts
  answer   share of evidence turns in the answer that an agent gets, of 1,000 tokens with labels
"""


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
        "--rounds",
        type=int,
        default=1,
        metavar="N",
        help="ask each query of --scale N times; the fastest counts, which others delayed least",
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
    if asked.rounds < 1:
        parser.error("--rounds is 1 or more")
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
        tables += await measure_scale(size, asked.keep, asked.rounds)
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
    async with temporary_store() as work:
        recorded = [await record(work, chat.name, chat.came) for chat in chats]
        for chat, (info, places) in zip(chats, recorded, strict=True):
            for query in chat.queries:
                began = time.perf_counter()
                default = await compactor.recall(work, info, query.text)
                ms = milliseconds(began)
                answer = await compactor.recall(work, info, query.text, max_tokens=_NO_LIMIT)
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
    async with temporary_store() as work:
        info, places = await record(work, "words", came)
        for query in queries:
            answer = await compactor.recall(work, info, query, max_tokens=_NO_LIMIT)
            ours.append(list(dict.fromkeys(places[hit.ref] for hit in answer.hits)))
    words, trigrams = rankings.fts5_words(said), rankings.fts5_trigrams(said)
    return {
        OURS: ours,
        "FTS5 words": [words(query) for query in queries],
        "FTS5 trigrams": [trigrams(query) for query in queries],
    }


if __name__ == "__main__":
    main()
