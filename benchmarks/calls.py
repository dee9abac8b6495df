"""What one more call costs in a window of 100 to 20,000 messages: record, recall, pin, fill.

    python benchmarks/calls.py [--sizes 100,1000,10000,20000]

CPU seconds of this process on a real store in a temporary folder, compared within this one run.
A recall ranks up to 1,500 places a word, so it costs more until a word stands in so many.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence

from mcp_compaction import compactor
from mcp_compaction.compactor.results import PinWish
from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.formats import read_incoming
from mcp_compaction.model import SessionInfo
from mcp_compaction.ports import SessionKey
from mcp_compaction.settings import load_settings
from mcp_compaction.wiring import open_workspace

SIZES = (100, 1_000, 10_000, 20_000)
ROUNDS = 15
BATCH = 1_000
ROOMY = {"MCP_COMPACTION_WINDOW_TOKENS": "100000000"}  # nothing is to be compressed

Call = Callable[[Workspace, SessionInfo, int], Awaitable[object]]


async def record(work: Workspace, info: SessionInfo, number: int) -> None:
    """What record_messages does for one message: append, safety net, fill line."""
    await compactor.record(work, info, read_incoming([message(number)]))
    await compactor.relieve(work, info)
    await work.read_window(info)


async def recall(work: Workspace, info: SessionInfo, number: int) -> None:
    """What recall_archived does for a query of one rare and one common word."""
    await compactor.recall(work, info, f"ticket {number % 100}")
    await work.read_window(info)


async def pin(work: Workspace, info: SessionInfo, number: int) -> None:
    """What pin_constraint does for a note."""
    await compactor.pin(
        work, info, PinWish(f"Ticket {number} waits for a review.", by="agent", kind="note")
    )
    await work.read_window(info)


CALLS: dict[str, Call] = {"record": record, "recall": recall, "pin": pin}


def message(number: int) -> dict[str, str]:
    """A message of about 200 characters."""
    role = "assistant" if number % 2 else "user"
    words = f"Ticket {number}: src/shop/cart_{number % 500}.py line {number % 300} rounds wrongly. "
    return {"role": role, "content": words * 3}


async def costs_at(work: Workspace, size: int) -> dict[str, float]:
    """The median CPU seconds of each call in a window of that many messages."""
    info, _ = await compactor.open_session(
        work, SessionKey(project=f"/calls/{size}", name="window")
    )
    for start in range(0, size, BATCH):
        batch = [message(n) for n in range(start, min(size, start + BATCH))]
        await compactor.record(work, info, read_incoming(batch))
    costs: dict[str, float] = {}
    for name, call in CALLS.items():
        times: list[float] = []
        for number in range(size, size + ROUNDS + 1):
            began = time.process_time()
            await call(work, info, number)
            times.append(time.process_time() - began)
        costs[name] = statistics.median(times[1:])
    return costs


async def run(sizes: Sequence[int]) -> None:
    """Print the cost of each call at each size, and the largest window over the smallest."""
    with tempfile.TemporaryDirectory() as folder:
        work = await open_workspace(load_settings({"MCP_COMPACTION_HOME": folder, **ROOMY}))
        try:
            await costs_at(work, 1)  # imports and caches are not what is measured
            found = {size: await costs_at(work, size) for size in sizes}
        finally:
            await work.store.close()
    print(f"{'messages':>10}" + "".join(f"{name:>12}" for name in CALLS))
    for size, costs in found.items():
        print(f"{size:>10,}" + "".join(f"{1_000 * costs[name]:>9.2f} ms" for name in CALLS))
    first, last = found[sizes[0]], found[sizes[-1]]
    print(f"{'ratio':>10}" + "".join(f"{last[name] / first[name]:>12.2f}" for name in CALLS))


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the sizes and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    given = parser.parse_args(arguments)
    asyncio.run(run([int(size) for size in given.sizes.split(",")]))


if __name__ == "__main__":
    main()
