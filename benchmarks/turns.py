"""A chat that grows beyond its window, request by request: direct, and through the gateway.

    python benchmarks/turns.py [--window 80000] [--requests 67] [--think 0.5]

A provider on loopback answers each request after `--think` seconds, and counts a token for every
four characters. The tool results have the sizes of a coding session: most short, some of many
thousand tokens. Each request goes to the provider directly, and then through a gateway that runs
in a process of its own. Printed are the requests that the gateway held for more than 0.3 s before
they went out, those of which it says that it went past them, the largest that the provider
got beside the window, the compactions, and the median times of a turn.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import httpx2

sys.path.insert(0, str(Path(__file__).parents[1]))  # the provider lives with the tests

from tests.gateway.talking import TOOLS
from tests.gateway.upstream import Asked, provide, write_whole

Json = dict[str, Any]

PROGRAM = Path(sys.executable).parent / "mcp-compaction"
HEADERS = {"x-claude-code-session-id": "chat-1", "user-agent": "claude-cli/2"}
PATIENCE = 0.3  # seconds that a request may be held
CHARS_OF_A_TOKEN = 4


@dataclass
class Model:
    """A provider that calls a tool each time, and notes when and how much it was asked."""

    think: float
    came: float = 0.0  # when the last request had come
    sizes: list[int] = field(default_factory=list[int])

    async def answer(self, asked: Asked, writer: asyncio.StreamWriter) -> None:
        """Answer one request after a while."""
        self.came = time.perf_counter()
        messages = json.loads(asked.body)["messages"]
        self.sizes.append(len(asked.body) // CHARS_OF_A_TOKEN)
        await asyncio.sleep(self.think)
        usage = {"input_tokens": self.sizes[-1], "output_tokens": 40}
        said = {**call_of(messages), "usage": usage, "id": "msg", "model": "m", "type": "message"}
        write_whole(writer, json.dumps(said).encode(), content_type="application/json")


def call_of(messages: Sequence[Json]) -> Json:
    """The next call of the model; the newest message has its number."""
    number = json.dumps(messages[-1]).count(" ") + len(messages)
    call = {"type": "tool_use", "id": f"toolu_{number}_{len(messages)}", "name": "Read"}
    return {"role": "assistant", "content": [{**call, "input": {"path": f"src/part_{number}.py"}}]}


def results(random: Random) -> Iterator[str]:
    """The results of tools: half of them below 1,600 tokens, none above 20,000."""
    words = ("retry", "queue", "worker", "schema", "token", "upload", "ledger", "tenant", "audit")
    while True:
        tokens = min(20_000, int(random.lognormvariate(7.4, 1.2)))
        lines: list[str] = []
        while sum(map(len, lines)) < CHARS_OF_A_TOKEN * tokens:
            one, other = random.choice(words), random.choice(words)
            lines.append(
                f"    {one}_{random.randrange(9_999)} = {other}.get({len(lines)})  # {one}"
            )
        yield "\n".join(lines)


@dataclass(slots=True)
class Took:
    """The seconds of one request, direct and through the gateway."""

    direct: float
    through: float
    held: float


async def talk(model: Model, direct: str, through: str, requests: int) -> list[Took]:
    """Send each request of a growing chat both ways."""
    found: list[Took] = []
    texts = results(Random("turns"))
    history: list[Json] = [{"role": "user", "content": "Read all parts. Never push to main."}]
    async with httpx2.AsyncClient(trust_env=False, verify=False, timeout=120) as client:
        for _ in range(requests):
            body = {"model": "m", "tools": TOOLS, "max_tokens": 100, "messages": history}
            began = time.perf_counter()
            await client.post(f"{direct}/v1/messages", json=body, headers=HEADERS)
            model.sizes.pop()
            middle = time.perf_counter()
            response = await client.post(f"{through}/v1/messages", json=body, headers=HEADERS)
            found.append(Took(middle - began, time.perf_counter() - middle, model.came - middle))
            said = {key: response.json()[key] for key in ("role", "content")}
            call = said["content"][0]["id"]
            block = {"type": "tool_result", "tool_use_id": call, "content": next(texts)}
            history = [*history, said, {"role": "user", "content": [block]}]
    return found


async def run(window: int, requests: int, think: float) -> None:
    """Print what a chat through the gateway was like."""
    model = Model(think)
    with tempfile.TemporaryDirectory() as home:
        environ = {"HOME": home, "PATH": os.environ["PATH"], "MCP_COMPACTION_COUNTER": "estimate"}
        environ["MCP_COMPACTION_WINDOW_TOKENS"] = str(window)
        async with provide(model.answer, remembers=False) as upstream:
            process = await asyncio.create_subprocess_exec(
                *(PROGRAM, "gateway", "--upstream", upstream.url, "--home", f"{home}/store"),
                cwd=home,
                env=environ,
                stdout=asyncio.subprocess.PIPE,
            )
            assert process.stdout is not None
            through = (await process.stdout.readline()).decode().rpartition(" ")[2].strip()
            found = await talk(model, upstream.url, through, requests)
            process.terminate()
            told, _ = await process.communicate()
    held = sum(one.held > PATIENCE for one in found)
    direct = statistics.median(one.direct for one in found)
    turn = statistics.median(one.through for one in found)
    longest = max(one.held for one in found)
    print(f"held over {PATIENCE} s: {held} of {requests}, the longest {longest:.2f} s")
    print(f"largest request: {max(model.sizes):,} of {window:,} tokens")
    over = sum(size > window for size in model.sizes)
    print(f"requests above the window: {over}")
    print(f"median turn: {turn:.3f} s, direct {direct:.3f} s: {turn / direct:.2f} times")
    print(told.decode().strip())


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the sizes and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--window", type=int, default=80_000)
    parser.add_argument("--requests", type=int, default=67)
    parser.add_argument("--think", type=float, default=0.5)
    given = parser.parse_args(arguments)
    asyncio.run(run(given.window, given.requests, given.think))


if __name__ == "__main__":
    main()
