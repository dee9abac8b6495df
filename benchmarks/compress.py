"""How long a compaction takes beside counting its tokens once, and whether recording stays linear.

    python benchmarks/compress.py

Everything runs on a real store in a temporary folder; speeds are compared within this one run.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # the generated sessions live with the tests

from mcp_compaction.compactor import Compactor
from mcp_compaction.core.parts import text_of
from mcp_compaction.counters.o200k import best_counter
from mcp_compaction.formats import incoming, read
from mcp_compaction.model import Ask, Compaction, SessionInfo
from mcp_compaction.ports import SessionKey
from mcp_compaction.settings import load_settings
from mcp_compaction.wiring import open_compactor
from tests.strategies import coding_session

OTHERS = 100_000
WINDOW = 200_000
ROUNDS = 5


async def main() -> None:
    """Print both comparisons."""
    with tempfile.TemporaryDirectory() as folder:
        settings = load_settings({"MCP_COMPACTION_HOME": folder})
        compactor = await open_compactor(settings)
        try:
            await record_throughput(compactor)
            await compress_ratio(compactor)
        finally:
            await compactor.close()


async def record_throughput(compactor: Compactor) -> None:
    """Messages a second at three sizes; what they leave behind fills the store."""
    best_counter().count("the ranks are loaded once, before anything is timed")
    first, _ = await compactor.open(SessionKey(project="/others", name="warm-up"))
    await compactor.record(first, incoming([small_message(-n) for n in range(1_000)]))
    print("recording (batches of 1,000, about 200 characters each)")
    rates: list[float] = []
    known = 0
    for size in (1_000, 10_000, 100_000):
        seconds = 0.0
        info, _ = await compactor.open(SessionKey(project="/others", name=f"bulk-{size}"))
        for start in range(0, size, 1_000):
            batch = [small_message(known + start + n) for n in range(1_000)]
            began = time.perf_counter()
            await compactor.record(info, incoming(batch))
            seconds += time.perf_counter() - began
        known += size
        rates.append(size / seconds)
        print(f"  {size:>7,} messages: {size / seconds:>7,.0f} a second")
    print(f"  rate at 100,000 / rate at 1,000: {rates[-1] / rates[0]:.2f}  (linear: about 1)")


async def compress_ratio(compactor: Compactor) -> None:
    """The time to compress a full window over the time to count it once."""
    originals = full_window()
    counting = min(count_once(originals) for _ in range(ROUNDS))
    times: list[float] = []
    for number in range(ROUNDS):
        info, _ = await compactor.open(SessionKey(project="/bench", name=f"full-{number}"))
        await compactor.record(info, incoming(list(originals)))
        times.append(await compress_once(compactor, info))
    best = min(times)
    print(
        f"compressing {WINDOW:,} tokens, {len(originals)} messages, {OTHERS:,} others in the store"
    )
    print(f"  count once {counting * 1000:.0f} ms, compress {best * 1000:.0f} ms")
    print(f"  compress / count: {best / counting:.1f}  (at most 10)")


async def compress_once(compactor: Compactor, info: SessionInfo) -> float:
    """Seconds of one real compaction down to 25 %, digest and verification included."""
    began = time.perf_counter()
    outcome = await compactor.compress(info, Ask(reason="benchmark", target_percent=25))
    seconds = time.perf_counter() - began
    if not isinstance(outcome, Compaction) or outcome.receipt.shortfall:
        raise SystemExit(f"the benchmark did not compress: {outcome}")
    return seconds


def count_once(originals: list[dict[str, Any]]) -> float:
    """Seconds to count every part of every message."""
    counter = best_counter()
    parts = [p for m in incoming(list(originals)).messages for p in read(m.shape, m.raw)[1]]
    texts = [text_of(part) for part in parts]
    counter.count("warm")
    began = time.perf_counter()
    for text in texts:
        counter.count(text)
    return time.perf_counter() - began


def full_window() -> list[dict[str, Any]]:
    """A coding session of about a full window."""
    counter = best_counter()
    originals = coding_session(900, 400)
    total = 0
    for number, message in enumerate(incoming(list(originals)).messages):
        total += sum(counter.count(text_of(part)) for part in read(message.shape, message.raw)[1])
        if total >= WINDOW and number % 2 == 0:
            return originals[: number + 1]
    raise SystemExit(f"only {total} tokens were generated")


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
    asyncio.run(main())
