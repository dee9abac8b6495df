"""What each family of the core's rules is worth: the views are measured again without it.

    python benchmarks/weigh.py SESSIONS.jsonl.gz
    python benchmarks/weigh.py SESSIONS.jsonl.gz --only next,facts --every 3
    python benchmarks/weigh.py --dialogues LOCOMO.json

Sessions are JSON lines with a `messages` list, plain or gzip: each is cut, what came before is
compacted to 25 and to 10 %, and what the rest needed is looked for in the view. A row shows by how
much a measure falls without the family, with the standard error over the sessions; a family whose
every fall is below two of them weighs nothing there, and stays only for the reason beside it.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import math
import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from mcp_compaction.core.compaction import room
from mcp_compaction.core.digest.extract import FAMILIES
from mcp_compaction.counters.o200k import best_counter
from mcp_compaction.evals.corpora import EvalCase, locomo, survives
from mcp_compaction.evals.handover import SMALLEST_WINDOW, Needs, judge_claims
from mcp_compaction.evals.handover_sessions import CUT, names_in, turns_of, with_runs_written_out
from mcp_compaction.evals.subject import subject
from mcp_compaction.formats import Incoming, read_incoming

PERCENTS = (25.0, 10.0)
MEASURES = ("later", "talk", "pairs", "states", "not false", "answers")
_LINE, _STRIDE = 240, 200

Row = dict[str, float]  # measures of one session


class Switch(NamedTuple):
    """A family, how it is taken out, and why it stays."""

    name: str
    take_out: Callable[[], Callable[[], None]]
    why: str


def switches() -> list[Switch]:
    """The families of the core, each with its switch."""
    found = [Switch(n, lambda n=n: _pop_family(n), one.why) for n, one in FAMILIES.items()]
    names = Switch("names", lambda: _patch_room("choose_names", _nothing), "names to type again")
    excerpts = Switch(
        "excerpts", lambda: _patch_room("choose_excerpts", _no_choice), "answers in talk"
    )
    return [*found, names, excerpts]


def _pop_family(name: str) -> Callable[[], None]:
    before = dict(FAMILIES)
    del FAMILIES[name]

    def put_back() -> None:
        FAMILIES.clear()
        FAMILIES.update(before)

    return put_back


def _patch_room(name: str, without: Callable[..., Any]) -> Callable[[], None]:
    before = getattr(room, name)
    setattr(room, name, without)
    return lambda: setattr(room, name, before)


def _nothing(*_: object) -> list[Any]:
    return []


def _no_choice(*_: object) -> tuple[()]:
    return ()


@contextmanager
def without(switch: Switch | None) -> Generator[None]:
    """The core without a family of its rules."""
    put_back = switch.take_out() if switch else None
    try:
        yield
    finally:
        if put_back:
            put_back()


async def measure_session(messages: Sequence[dict[str, Any]], counter: Any) -> list[Row]:
    """The measures of one session's views."""
    came = read_incoming(list(messages)).messages
    turns = turns_of(came)
    cut = int(len(came) * CUT)
    while cut < len(came) and turns[cut].role != "assistant":
        cut += 1
    needs = Needs(turns[:cut], turns[cut:])
    total = sum(counter.count(turn.text) for turn in needs.early)
    rows: list[Row] = []
    for percent in PERCENTS:
        async with subject(None, counter) as ours:
            await ours.record(Incoming(messages=came[:cut]))
            early = (await ours.workspace.load(ours.info)).messages
            await ours.set_window(max(total, SMALLEST_WINDOW))
            began = time.process_time()
            await ours.compress(percent)
            cpu = time.process_time() - began
            view = with_runs_written_out("\n".join(line.text for line in await ours.read_lines()))
            digests = (await ours.workspace.load(ours.info)).digests
        claims = judge_claims(early, needs.later, digests)
        told, files = claims["files whose state is told"]
        false, _ = claims["files told of falsely"]
        lines = [names_in(line[at : at + _LINE]) for line in view.split("\n")
                 for at in range(0, len(line), _STRIDE)]  # fmt: skip
        together = sum(any(len(pair & names) > 1 for names in lines) for pair in needs.pairs)
        row = {"cpu": cpu}
        row |= _share("later", sum(name in view for name in needs.in_calls), len(needs.in_calls))
        row |= _share("talk", sum(name in view for name in needs.in_talk), len(needs.in_talk))
        row |= _share("pairs", together, len(needs.pairs))
        row |= _share("states", told, files)
        row |= _share("not false", files - false, files)
        rows.append(row)
    return rows


async def measure_dialogue(case: EvalCase, counter: Any) -> list[Row]:
    """How many answers of a talk are in its view."""
    rows: list[Row] = []
    for percent in PERCENTS:
        async with subject(case, counter) as ours:
            messages = (await ours.workspace.load(ours.info)).messages
            await ours.set_window(max(sum(m.tokens for m in messages), SMALLEST_WINDOW))
            began = time.process_time()
            shown = await ours.compress(percent)
            cpu = time.process_time() - began
        kept = sum(survives(probe, shown.context) for probe in case.probes)
        rows.append({"cpu": cpu} | _share("answers", kept, len(case.probes)))
    return rows


def _share(name: str, kept: int, asked: int) -> Row:
    return {name: kept / asked} if asked else {}


async def measure_all(args: argparse.Namespace, counter: Any) -> list[Row]:
    """The measures of every view, in the same order each time."""
    rows: list[Row] = []
    for messages in read_files(args.sessions)[:: args.every]:
        rows += await measure_session(messages, counter)
    for path in args.dialogues:
        for case in locomo(path)[:: args.every]:
            rows += await measure_dialogue(case, counter)
    return rows


def read_files(paths: Sequence[Path]) -> list[list[dict[str, Any]]]:
    """The messages of each session of some files."""
    found: list[list[dict[str, Any]]] = []
    for path in paths:
        opened = gzip.open if path.suffix == ".gz" else open
        with opened(path, "rt", encoding="utf-8") as lines:
            found += [json.loads(line)["messages"] for line in lines]
    return found


def fall(base: Sequence[Row], rows: Sequence[Row], name: str) -> tuple[float, float] | None:
    """By how much a measure fell, with its standard error; None where nothing was measured."""
    falls = [b[name] - r[name] for b, r in zip(base, rows, strict=True) if name in b]
    if len(falls) < 2:
        return None
    mean = math.fsum(falls) / len(falls)
    spread = math.fsum((one - mean) ** 2 for one in falls) / (len(falls) - 1)
    return mean, math.sqrt(spread / len(falls))


def tell(name: str, base: Sequence[Row], rows: Sequence[Row], why: str) -> str:
    """One row of the table."""
    falls = {measure: fall(base, rows, measure) for measure in MEASURES}
    cells = [f"{one[0]:+.3f}±{one[1]:.3f}" if one else "-" for one in falls.values()]
    weighs = any(one and one[0] > 2 * one[1] and one[0] > 0 for one in falls.values())
    cpu = sum(row["cpu"] for row in rows) / sum(row["cpu"] for row in base)
    verdict = "weighs" if weighs else f"stays: {why}"
    return f"{name:10}" + "".join(f"{cell:>14}" for cell in cells) + f"{cpu:>7.2f}  {verdict}"


async def main() -> None:
    """Weigh the families."""
    parser = argparse.ArgumentParser(description="What each family of the core's rules is worth.")
    parser.add_argument("sessions", nargs="*", type=Path, help="files of coding sessions")
    parser.add_argument("--dialogues", action="append", default=[], type=Path, metavar="FILE")
    parser.add_argument("--only", default="", help="families to weigh, by name")
    parser.add_argument("--every", type=int, default=1, help="each so many-th session only")
    args = parser.parse_args()
    counter = best_counter()
    base = await measure_all(args, counter)
    means = {m: [row[m] for row in base if m in row] for m in MEASURES}
    print("with all: " + ", ".join(f"{m} {sum(v) / len(v):.3f}" for m, v in means.items() if v))
    print(f"{'without':10}" + "".join(f"{measure:>14}" for measure in MEASURES) + f"{'cpu':>7}")
    wanted = set(args.only.split(",")) if args.only else None
    for switch in switches():
        if wanted is None or switch.name in wanted:
            with without(switch):
                rows = await measure_all(args, counter)
            print(tell(switch.name, base, rows, switch.why), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
