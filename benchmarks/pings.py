"""How soon a server answers a ping while it compresses, beside one that has nothing to do.

    python benchmarks/pings.py [--tokens 500000] [--kind joined] [--idle 3]

A real server over stdio on a store in a temporary folder. A ping is sent every 10 ms, be the one
before answered or not, and now and then a recall of another session instead. Both are compared
within this one run: at most 10 times the idle median is promised.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

from mcp_compaction import compactor

sys.path.insert(0, str(Path(__file__).parents[1]))  # the host and the sessions live with the tests

from benchmarks.windows import GENERATED, window_of
from mcp_compaction.counters.o200k import best_counter
from mcp_compaction.formats import read_incoming
from mcp_compaction.model import Traits
from mcp_compaction.ports import SessionKey
from mcp_compaction.settings import load_settings
from mcp_compaction.wiring import open_workspace
from tests.server.host import Host, call, request, toy

MOST = 10  # times the median of an idle server
PAUSE = 0.01  # seconds between two calls, whether or not the first is answered
PINGS_A_RECALL = 25
PROJECT = "/pings"
SERVER = [str(Path(sys.executable).with_name("mcp-compaction")), "serve", "--project", PROJECT]


class Waits(NamedTuple):
    """Seconds that pings and recalls took."""

    pings: list[float]
    recalls: list[float]


def main(argv: Sequence[str] | None = None) -> None:
    """Print the waits of an idle server and of one that compresses, and their ratio."""
    parser = argparse.ArgumentParser(description="Pings while a server compresses.")
    parser.add_argument("--tokens", type=int, default=500_000, help="the window to compress")
    parser.add_argument("--kind", choices=GENERATED, default="joined", help="what it holds")
    parser.add_argument("--idle", type=float, default=3.0, help="seconds of the idle server")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(fill_store(Path(folder), options.kind, options.tokens))
        with toy(command=SERVER, env={"MCP_COMPACTION_HOME": folder}) as host:
            host.greet()
            asking = call("first", "recall_archived", query="test", session="small")
            wait_for_reply(host, asking)  # what is opened and loaded once is not measured
            idle, _ = wait_for_reply(host, None, options.idle)
            began = monotonic()
            ask = {"reason": "benchmark", "session": "large", "target_percent": 25}
            busy, receipt = wait_for_reply(host, call("compress", "compress_context", **ask))
            seconds = monotonic() - began
    print(receipt.split("\n", 1)[0])
    print(f"{'':<28}{'median':>10}{'9 of 10':>10}{'worst':>10}{'number':>8}")
    print_row("ping, idle", idle.pings)
    print_row(f"ping, {seconds:.1f} s of compressing", busy.pings)
    print_row("recall, idle", idle.recalls)
    print_row("recall, while compressing", busy.recalls)
    ratio = statistics.median(busy.pings) / statistics.median(idle.pings)
    kept = "" if ratio <= MOST else "  NOT KEPT"
    print(f"ping ratio {ratio:.1f} (at most {MOST}){kept}")


async def fill_store(home: Path, kind: str, tokens: int) -> None:
    """Record a large window, and a small one beside it."""
    work = await open_workspace(load_settings({"MCP_COMPACTION_HOME": str(home)}))
    window = window_of(GENERATED[kind](), tokens, best_counter().count)
    try:
        for name, messages in (("large", window), ("small", window[:40])):
            key = SessionKey(project=PROJECT, name=name)
            info, _ = await compactor.open_session(
                work, key, Traits(window_tokens=tokens, owns_window=True)
            )
            await compactor.record(work, info, read_incoming(list(messages)))
    finally:
        await work.store.close()


def wait_for_reply(
    host: Host, asked: dict[str, Any] | None, seconds: float = math.inf
) -> tuple[Waits, str]:
    """What paced calls take until the reply to one more comes, or for some seconds; its text."""
    sent: dict[int, float] = {}
    took: dict[int, float] = {}
    reply = ""
    began = monotonic()
    if asked is not None:
        host.send(asked)
    while len(took) < len(sent) or (not reply and monotonic() - began < seconds):
        number = len(sent)
        is_due = monotonic() - began >= number * PAUSE
        if is_due and not reply and monotonic() - began < seconds:
            sent[number] = monotonic()
            host.send(_recall(number) if number % PINGS_A_RECALL == 0 else request(number, "ping"))
        while (came := host.receive_within(PAUSE / 10)) is not None:
            if asked is not None and came.get("id") == asked["id"]:
                reply = came["result"]["content"][0]["text"]
            elif "id" in came:
                took[came["id"]] = monotonic() - sent[came["id"]]
    recalls = [took[number] for number in took if number % PINGS_A_RECALL == 0]
    return Waits([took[n] for n in took if n % PINGS_A_RECALL], recalls), reply


def _recall(number: int) -> dict[str, Any]:
    return call(number, "recall_archived", query="test", session="small")


def print_row(name: str, times: Sequence[float]) -> None:
    """One line of the table, in milliseconds."""
    if times:
        ordered = sorted(1_000 * seconds for seconds in times)
        nine_of_ten = ordered[len(ordered) * 9 // 10]
        shown = (statistics.median(ordered), nine_of_ten, ordered[-1])
        print(f"{name:<28}" + "".join(f"{ms:>7.1f} ms" for ms in shown) + f"{len(times):>8}")


if __name__ == "__main__":
    main()
