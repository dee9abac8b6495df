"""What the gateway adds to a request, in histories of 50k, 150k and 500k tokens.

    python benchmarks/gateway.py [--sizes 50000,150000,500000]

CPU seconds of this process on a real store in a temporary folder, without a network. `way` is what
a request waits for, `behind` what is done while the answer streams: recording it, recording the
answer and looking at the window. Beside them stands what it costs to parse, hash and dump the same
body, taken before each request, and the ratio of both together to that. `wait` is the time by the
clock before the request goes out. All are medians.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))  # the other files of this folder

from benchmarks.request import TOKENS_OF_A_STEP, Body, body_of, plain_cost, step
from mcp_compaction import open_store
from mcp_compaction.api import OpenStore
from mcp_compaction.gateway.turns import CallTurn, CallTurns

SIZES = (50_000, 150_000, 500_000)
ROUNDS = 25
ROOMY = 100_000_000  # tokens: nothing is to be compressed
HEADERS = {"x-claude-code-session-id": "chat-1", "content-type": "application/json"}
TOOLS = [{"name": "Read", "input_schema": {"type": "object"}}]


class Cost(NamedTuple):
    """Seconds for one request."""

    plain: float  # to parse, hash and dump the body
    way: float
    behind: float
    wait: float  # by the clock


async def pass_through(turns: CallTurns, body: Body) -> Cost:
    """Pass one request and its answer."""
    raw = json.dumps(body).encode()
    plain = plain_cost(raw)
    began, since = time.process_time(), time.perf_counter()
    turn = await turns.begin("/v1/messages", HEADERS, raw)
    way, wait = time.process_time() - began, time.perf_counter() - since
    assert isinstance(turn, CallTurn)
    began = time.process_time()
    turn.begin_answer(200, {"content-type": "application/json"})
    turn.hear(json.dumps(answer_of(len(body["messages"]))).encode())
    turn.end(is_whole=True)
    await turns.settle()
    return Cost(plain, way, time.process_time() - began, wait)


def answer_of(number: int) -> Body:
    """The answer to a request: the call of the next step, and what the provider counted."""
    said = step(number)[0]
    usage = {"input_tokens": number * TOKENS_OF_A_STEP // 2, "output_tokens": 40}
    return {"type": "message", "role": "assistant", "content": said["content"], "usage": usage}


async def costs_at(home: str, tokens: int) -> Cost:
    """The costs in a history of that many tokens."""
    steps = max(1, tokens // TOKENS_OF_A_STEP)
    body = {**body_of(steps), "tools": TOOLS}
    found: list[Cost] = []
    async with open_store(home=home, project=f"/of-{tokens}", window_tokens=ROOMY) as store:

        async def open_it() -> OpenStore:
            return store

        turns = CallTurns(open_it, store.settings, patience=60.0)
        for _ in range(ROUNDS + 1):
            found.append(await pass_through(turns, body))
            number = len(body["messages"])
            body = {**body, "messages": [*body["messages"], *step(number)]}
        await turns.close()
    # The first one records the whole history.
    return Cost(*(statistics.median(times) for times in zip(*found[1:], strict=True)))


async def run(sizes: Sequence[int]) -> None:
    """Print the costs at each size."""
    with tempfile.TemporaryDirectory() as home:
        await costs_at(home, 1)  # imports and caches are not what is measured
        found = {size: await costs_at(home, size) for size in sizes}
    print(f"{'tokens':>10}{'plain':>12}{'way':>12}{'behind':>12}{'ratio':>8}{'wait':>12}")
    for tokens, cost in found.items():
        ratio = (cost.way + cost.behind) / cost.plain
        times = [f"{1_000 * one:>9.2f} ms" for one in (cost.plain, cost.way, cost.behind)]
        print(f"{tokens:>10,}{''.join(times)}{ratio:>8.2f}{1_000 * cost.wait:>9.2f} ms")


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the sizes and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    given = parser.parse_args(arguments)
    asyncio.run(run([int(size) for size in given.sizes.split(",")]))


if __name__ == "__main__":
    main()
