"""How long a compaction takes beside counting its tokens once, and whether its cost stays linear.

    python benchmarks/compress.py
    python benchmarks/compress.py --sizes 50000,200000 --kinds joined,short
    python benchmarks/compress.py --sessions FILE     JSON lines with a `messages` list, joined
    python benchmarks/compress.py --forced            as force=true does it, not down to 25 %

Everything runs on a real store in a temporary folder; CPU times are compared within this one run,
and the exponent is 1 where they grow with the tokens alone.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import math
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from mcp_compaction import compactor

sys.path.insert(0, str(Path(__file__).parents[1]))  # the generated sessions live with the tests

from benchmarks.windows import GENERATED, endless, read_sessions, texts_of, window_of
from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.counters.o200k import best_counter
from mcp_compaction.formats import read_incoming
from mcp_compaction.model import Ask, Compaction, SessionInfo, Traits
from mcp_compaction.ports import SessionKey
from mcp_compaction.settings import load_settings
from mcp_compaction.wiring import open_workspace

SIZES = (50_000, 100_000, 200_000, 400_000, 800_000)
MOST = {"coding": 10, "joined": 10, "short": 10, "sessions": 25}  # compress / count
STEEPEST = 1.15
_ROUNDS_OF = 400_000  # tokens; smaller windows are compressed several times, and the best counts
_MOST_ROUNDS = 4
_COUNTING = 1.0  # seconds of counting before and after each compaction
_CACHED = type(lru_cache(maxsize=1)(len))

Source = Callable[[], Iterator[dict[str, Any]]]


class Measured(NamedTuple):
    """What one window took, in CPU seconds."""

    tokens: int
    messages: int
    counting: float
    compressing: float

    @property
    def ratio(self) -> float:
        """Compressing as a multiple of counting once."""
        return self.compressing / self.counting


def main(argv: Sequence[str] | None = None) -> None:
    """Print how recording and compressing grow."""
    parser = argparse.ArgumentParser(description="Compressing beside counting, and its growth.")
    parser.add_argument("--sizes", type=_sizes, default=SIZES, help="tokens, with commas between")
    parser.add_argument("--kinds", default=",".join(GENERATED), help="which generated sessions")
    parser.add_argument("--sessions", type=Path, metavar="FILE", help="real ones, joined")
    parser.add_argument("--forced", action="store_true", help="compress with force, no target")
    parser.add_argument("--no-recording", action="store_true", help="leave out recording")
    options = parser.parse_args(argv)
    kinds: dict[str, Source] = {name: GENERATED[name] for name in options.kinds.split(",") if name}
    if options.sessions:
        messages = read_sessions(options.sessions)
        kinds["sessions"] = lambda: endless(messages)
    how = {"force": True} if options.forced else {"target_percent": 25}
    ask = Ask.model_validate({"reason": "benchmark", **how})
    asyncio.run(run(kinds, options.sizes, ask, not options.no_recording))


async def run(
    kinds: dict[str, Source], sizes: Sequence[int], ask: Ask, with_recording: bool
) -> None:
    """Measure on one store; what recording leaves behind are the others beside each session."""
    with tempfile.TemporaryDirectory() as folder:
        work = await open_workspace(load_settings({"MCP_COMPACTION_HOME": folder}))
        try:
            best_counter().count("the ranks are loaded once, before anything is timed")
            if with_recording:
                await record_throughput(work)
            for kind, source in kinds.items():
                measured = [
                    await measure(work, f"{kind}-{size}", source, size, ask) for size in sizes
                ]
                print_kind(kind, measured)
        finally:
            await work.store.close()


def print_kind(kind: str, measured: Sequence[Measured]) -> None:
    """One line a size, then the exponent over all of them."""
    print(f"compressing {kind}    tokens  messages   count s  compress s   compress / count")
    for one in measured:
        print(
            f"{one.tokens:>{len(kind) + 22},}{one.messages:>10,}{one.counting:>10.3f}"
            f"{one.compressing:>12.2f}{one.ratio:>19.1f}"
        )
    highest = max(one.ratio for one in measured)
    print(f"  highest ratio {highest:.1f} (at most {MOST[kind]})", end="")
    if len(measured) > 1:
        steepness = exponent([one.tokens for one in measured], [m.compressing for m in measured])
        print(f", exponent {steepness:.2f} (at most {STEEPEST})", end="")
    print(flush=True)


async def measure(work: Workspace, name: str, source: Source, size: int, ask: Ask) -> Measured:
    """The best of a few compactions of one window, and counts of it right before and after."""
    counter = best_counter()
    window = window_of(source(), size, counter.count)
    texts = texts_of(window)
    tokens = sum(map(counter.count, texts))
    rounds = max(1, min(_MOST_ROUNDS, _ROUNDS_OF // size))
    found: list[Measured] = []
    for number in range(rounds):
        key = SessionKey(project="/bench", name=f"{name}-{number}")
        info, _ = await compactor.open_session(work, key, Traits(window_tokens=tokens))
        await compactor.record(work, info, read_incoming(list(window)))
        before = count_once(texts)
        compressing = await compress_once(work, info, ask)
        counting = (before + count_once(texts)) / 2
        found.append(Measured(tokens, len(window), counting, compressing))
    return min(found, key=lambda one: one.compressing)


def count_once(texts: Sequence[str]) -> float:
    """CPU seconds of one count of a window, in the mean of a second: on a machine whose speed
    varies, the best of a few short counts would be held against a long compaction."""
    counter = best_counter()
    began = time.process_time()
    times = 0
    while (spent := time.process_time() - began) < _COUNTING:
        for text in texts:
            counter.count(text)
        times += 1
    return spent / times


async def compress_once(work: Workspace, info: SessionInfo, ask: Ask) -> float:
    """CPU seconds of one real compaction, digest and verification included; as in the process that
    a server has for it, nobody looks for cycles meanwhile."""
    forget_what_was_read()
    gc.collect()
    gc.disable()
    try:
        began = time.process_time()
        outcome = await compactor.compress(work, info, ask)
        seconds = time.process_time() - began
    finally:
        gc.enable()
    if not isinstance(outcome, Compaction):
        raise SystemExit(f"the benchmark did not compress: {outcome}")
    return seconds


def forget_what_was_read() -> None:
    """Empty the caches of texts: an earlier round must not make a later one of the same texts
    cheaper. What a process reads once, as its lexicons, is in caches without a limit."""
    for found in gc.get_objects():
        if isinstance(found, _CACHED) and found.cache_info().maxsize:
            found.cache_clear()


def exponent(sizes: Sequence[float], times: Sequence[float]) -> float:
    """The power of the size that the times grow with, fitted over all of them."""
    logs = [(math.log(size), math.log(seconds)) for size, seconds in zip(sizes, times, strict=True)]
    mean_x = sum(x for x, _ in logs) / len(logs)
    mean_y = sum(y for _, y in logs) / len(logs)
    spread = sum((x - mean_x) ** 2 for x, _ in logs)
    return sum((x - mean_x) * (y - mean_y) for x, y in logs) / spread


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(int(size.replace("_", "")) for size in text.split(","))


async def record_throughput(work: Workspace) -> None:
    """Messages a second at three sizes; what they leave behind fills the store."""
    first, _ = await compactor.open_session(work, SessionKey(project="/others", name="warm-up"))
    await compactor.record(work, first, read_incoming([small_message(-n) for n in range(1_000)]))
    print("recording (batches of 1,000, about 200 characters each)")
    rates: list[float] = []
    known = 0
    for size in (1_000, 10_000, 100_000):
        seconds = 0.0
        info, _ = await compactor.open_session(
            work, SessionKey(project="/others", name=f"bulk-{size}")
        )
        for start in range(0, size, 1_000):
            batch = [small_message(known + start + n) for n in range(1_000)]
            began = time.perf_counter()
            await compactor.record(work, info, read_incoming(batch))
            seconds += time.perf_counter() - began
        known += size
        rates.append(size / seconds)
        print(f"  {size:>7,} messages: {size / seconds:>7,.0f} a second")
    print(f"  rate at 100,000 / rate at 1,000: {rates[-1] / rates[0]:.2f}  (linear: about 1)")


def small_message(number: int) -> dict[str, Any]:
    """A message of about 200 characters that no other equals."""
    words = (
        f"step {number} of the migration of table t{number % 97}: moved {number * 7 % 1013} rows"
    )
    return {
        "role": "assistant" if number % 2 else "user",
        "content": f"{words}, checked src/jobs/part{number % 211}.py, no errors so far, "
        f"next is batch {number + 1}; the queue holds {number * 31 % 4999} items and stays steady.",
    }


if __name__ == "__main__":
    main()
