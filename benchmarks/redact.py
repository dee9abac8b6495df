"""How long masking takes beside counting the tokens of the same text, and whether it stays linear.

    python benchmarks/redact.py
    python benchmarks/redact.py --texts FILE      a file of your own instead of the coding session

Times are compared within this one run; the exponent is 1 where time grows with the length alone.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from time import process_time

sys.path.insert(0, str(Path(__file__).parents[1]))  # the generated sessions live with the tests

from mcp_compaction.core.text.secrets import redact
from mcp_compaction.counters.o200k import best_counter
from tests.strategies import coding_session

ROUNDS = 5
SIZES = (25_000, 50_000, 100_000, 200_000, 400_000)
_WORDS = ("request", "user", "session", "worker", "timeout", "payload", "config", "token", "done")
_NEARLY = ("password:", "xoxb-", "eyJaaaaaaaaaa.", "curl -u a ", "cookie:a=b; ", "A3-A1A1A1-")
_TRIVIAL = re.compile("[A-Za-z0-9]+")


def main(argv: Sequence[str] | None = None) -> None:
    """Print both comparisons."""
    parser = argparse.ArgumentParser(description="Masking beside token counting, and its growth.")
    parser.add_argument("--texts", type=Path, metavar="FILE", help="a text file to mask")
    parser.add_argument("--most", type=int, default=SIZES[-1], help="the longest text, in signs")
    options = parser.parse_args(argv)
    session = (
        options.texts.read_text(encoding="utf-8")
        if options.texts
        else "\n".join(json.dumps(message) for message in coding_session(120, 3_000))
    )
    longest: int = options.most
    print_ratios({"session": session[:longest], "log": log_lines(longest)})
    print_growth(longest)


def print_ratios(texts: dict[str, str]) -> None:
    """Masking, as a multiple of one count of the tokens and of one plain pattern."""
    count = best_counter().count
    print("masking beside one pass of ...   counting tokens   finding words   MB a second")
    for name, text in texts.items():
        redact(text[:100])
        count(text[:100])
        masking = seconds(lambda: redact(text))  # noqa: B023
        counting = seconds(lambda: count(text))  # noqa: B023
        words = seconds(lambda: _TRIVIAL.sub("x", text))  # noqa: B023
        speed = len(text) / masking / 1e6
        print(f"{name:32} {masking / counting:15.2f} {masking / words:15.2f} {speed:13.1f}")


def print_growth(longest: int) -> None:
    """The exponent with which time grows, in ordinary text and in what nearly is a secret."""
    sizes = [size for size in SIZES if size <= longest]
    print("\nexponent over", ", ".join(f"{size:,}" for size in sizes), "signs")
    log = log_lines(longest)
    for name, text in {"log": log, **{unit: unit * longest for unit in _NEARLY}}.items():
        times = [seconds(lambda: redact(text[:size] + "_")) for size in sizes]  # noqa: B023
        print(f"{name!r:32} {exponent(sizes, times):15.2f}")


def log_lines(size: int) -> str:
    """So many signs of a made-up log."""
    pick = Random(7)
    lines: list[str] = []
    length = 0
    while length < size:
        said = " ".join(pick.choices(_WORDS, k=8))
        lines.append(
            f"2026-11-15T10:00:{pick.randrange(60):02}Z id={pick.getrandbits(32):08x} {said}"
        )
        length += len(lines[-1]) + 1
    return "\n".join(lines)[:size]


def seconds(work: Callable[[], object]) -> float:
    """The least processor time of several rounds."""
    times: list[float] = []
    for _ in range(ROUNDS):
        began = process_time()
        work()
        times.append(process_time() - began)
    return min(times)


def exponent(sizes: Sequence[int], times: Sequence[float]) -> float:
    """The slope of time over size, both as logarithms."""
    xs, ys = [math.log(size) for size in sizes], [math.log(time) for time in times]
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    above = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True))
    return above / sum((x - mean_x) ** 2 for x in xs)


if __name__ == "__main__":
    main()
