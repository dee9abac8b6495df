"""What one request costs of which one message is new, in windows of 50k, 150k and 500k tokens.

    python benchmarks/request.py [--sizes 50000,150000,500000]

CPU seconds of this process on a real store in a temporary folder. Beside each stands what it costs
to parse, hash and dump the same body, which every loop pays anyway, and the ratio of the two, taken
within this one run. `first` is the first request of a new process that knows nothing but the store.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import statistics
import tempfile
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from mcp_compaction import compactor
from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.ports import SessionKey
from mcp_compaction.settings import load_settings
from mcp_compaction.wiring import open_workspace

SIZES = (50_000, 150_000, 500_000)
ROUNDS = 9
TOKENS_OF_A_STEP = 1_000
ROOMY = {"MCP_COMPACTION_WINDOW_TOKENS": "100000000"}  # nothing is to be compressed

Body = dict[str, Any]


class Cost(NamedTuple):
    """CPU seconds at one size."""

    tokens: int
    messages: int
    plain: float  # to parse, hash and dump the body
    first: float
    later: float


def body_of(steps: int) -> Body:
    """A request of that many tool steps, each of about 1,000 tokens."""
    messages: list[Body] = [{"role": "user", "content": "Mend what rounds wrongly."}]
    for number in range(steps):
        messages += step(number)
    return {"model": "some-model", "system": "Be brief.", "messages": messages}


def step(number: int) -> list[Body]:
    """A call and its result of about 4,000 characters."""
    call_id = f"toolu_{number:06}"
    line = f"src/shop/cart_{number % 500}.py line {number % 300} rounds {number * 7}.25 wrongly.\n"
    call = {"type": "tool_use", "id": call_id, "name": "Read", "input": {"path": f"{number}.py"}}
    thought = {"type": "thinking", "thinking": f"Part {number} is next.", "signature": "c2ln" * 20}
    result = {"type": "tool_result", "tool_use_id": call_id, "content": line * 62}
    return [
        {"role": "assistant", "content": [thought, call]},
        {"role": "user", "content": [result]},
    ]


def plain_cost(text: str | bytes) -> float:
    """The CPU seconds of parsing, hashing and dumping a body."""
    began = time.process_time()
    parsed = json.loads(text)
    hashlib.sha256(json.dumps(parsed, ensure_ascii=False).encode()).digest()
    return time.process_time() - began


async def fit(work: Workspace, body: Body, name: str) -> float:
    """The CPU seconds of fitting one request."""
    info, _ = await compactor.open_session(work, SessionKey(project="/requests", name=name))
    began = time.process_time()
    await compactor.fit(work, info, body)
    return time.process_time() - began


async def costs_at(home: str, tokens: int) -> Cost:
    """The costs in a window of that many tokens."""
    settings = load_settings({"MCP_COMPACTION_HOME": home, **ROOMY})
    steps = max(1, tokens // TOKENS_OF_A_STEP)
    body, name = body_of(steps), f"of-{tokens}"
    work = await open_workspace(settings)
    try:
        await fit(work, body, name)
    finally:
        await work.store.close()
    work = await open_workspace(settings)  # as in a new process: nothing is remembered
    try:
        first = await fit(work, body, name)
        times: list[float] = []
        for number in range(ROUNDS):
            for message in step(steps + number):
                body = {**body, "messages": [*body["messages"], message]}
                times.append(await fit(work, body, name))
    finally:
        await work.store.close()
    text = json.dumps(body)
    plain = statistics.median(plain_cost(text) for _ in range(ROUNDS))
    return Cost(tokens, len(body["messages"]), plain, first, statistics.median(times))


async def run(sizes: Sequence[int]) -> None:
    """Print the costs at each size."""
    with tempfile.TemporaryDirectory() as home:
        await costs_at(home, 1)  # imports and caches are not what is measured
        found = [await costs_at(home, size) for size in sizes]
    print(f"{'tokens':>10}{'messages':>10}{'plain':>12}{'request':>12}{'ratio':>8}{'first':>12}")
    for cost in found:
        numbers = f"{cost.tokens:>10,}{cost.messages:>10,}{1_000 * cost.plain:>9.2f} ms"
        ratio = f"{1_000 * cost.later:>9.2f} ms{cost.later / cost.plain:>8.2f}"
        print(f"{numbers}{ratio}{1_000 * cost.first:>9.2f} ms")


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the sizes and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    given = parser.parse_args(arguments)
    asyncio.run(run([int(size) for size in given.sizes.split(",")]))


if __name__ == "__main__":
    main()
