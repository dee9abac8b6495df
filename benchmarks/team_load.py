"""Many servers, many sessions, one PostgreSQL: nothing that was acknowledged may be lost.

    python benchmarks/team_load.py
    python benchmarks/team_load.py --servers 2 --sessions 20 --seconds 20 --kills 5

Starts a PostgreSQL of its own in a temporary folder, and server processes on it; each session goes
from one server to another. With `--kills` servers are killed at random meanwhile, up to half of
them at once, and started anew; the load lasts until all of these kills are done.
Ends with 1 where an answer was an error, or a message is missing, twice or out of order.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import socket
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from random import Random
from typing import Any, cast

sys.path.insert(0, str(Path(__file__).parents[1]))
import anyio
import httpx2
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult, TextContent

from benchmarks.tables import Table, progress, table_text, times
from mcp_compaction.cli.main import run as run_command
from mcp_compaction.ports import Scope
from mcp_compaction.store.postgres import database
from mcp_compaction.store.postgres.store import open_store
from tests.server.team_server import environ_for, new_token, wait_until_ready
from tests.store.postgres_server import Server, running_server

ROLE = "load_server"
OWNERS = 10
_WORDS = ("refund", "invoice", "staging", "deploy", "ledger", "tax", "account", "branch", "merge")
_OPERATIONS = ("record",) * 12 + ("recall",) * 5 + ("stats", "pin", "compress")
_PRELOADED = ("__main__", "mcp_compaction.server.team", "mcp_compaction.cli.commands.serve")
_AWAY = (httpx2.HTTPError, OSError, MCPError, ExceptionGroup)


@dataclass
class Run:
    """What is measured, by all sessions together."""

    ports: list[int]
    chance: Random
    began: float = field(default_factory=time.monotonic)
    is_over: bool = False
    killed: int = 0
    restarted: int = 0
    waits: Counter[str] = field(default_factory=Counter[str])
    errors: Counter[str] = field(default_factory=Counter[str])
    taken: dict[str, list[float]] = field(default_factory=dict[str, list[float]])


@dataclass
class Speaker:
    """One session of an owner: what it said, and what of that was acknowledged."""

    run: Run
    token: str
    owner: str
    name: str
    acknowledged: int = 0
    asked: int = 0
    last: str = ""

    async def go_on(self) -> None:
        """Call now this server and now that one, until the time is over."""
        while not self.run.is_over:
            port = self.run.chance.choice(self.run.ports)
            try:
                async with AsyncExitStack() as stack:
                    client = await self._connect(stack, port)
                    for _ in range(10):
                        if self.run.is_over:
                            return
                        await self._call_one(client)
            except _AWAY as error:
                self.run.waits[_name_of(error)] += 1
                await anyio.sleep(self.run.chance.random())

    async def _connect(self, stack: AsyncExitStack, port: int) -> Client:
        headers = {"Authorization": f"Bearer {self.token}"}
        http = await stack.enter_async_context(httpx2.AsyncClient(headers=headers, timeout=300))
        transport = streamable_http_client(f"http://127.0.0.1:{port}/mcp", http_client=http)
        return await stack.enter_async_context(Client(transport, mode="auto"))

    async def _call_one(self, client: Client) -> None:
        kind = self.run.chance.choice(_OPERATIONS) if self.acknowledged > 2 else "record"
        words = " ".join(self.run.chance.choices(_WORDS, k=3))
        tool, arguments = {
            "record": ("record_messages", self._next_message(words)),
            "recall": ("recall_archived", {"query": words}),
            "stats": ("context_stats", {}),
            "pin": ("pin_constraint", {"text": f"never {words}"}),
            "compress": ("compress_context", {"reason": "the load", "force": True}),
        }[kind]
        began = time.perf_counter()
        answer = await client.call_tool(tool, {**arguments, "session": self.name})
        self.run.taken.setdefault(kind, []).append((time.perf_counter() - began) * 1000)
        assert isinstance(answer, CallToolResult)
        if answer.is_error:
            self._note_error(kind, answer)
        elif kind == "record":
            self.acknowledged += 1

    def _next_message(self, words: str) -> dict[str, Any]:
        """The next message by its place; where an answer was lost, the same words again."""
        number = self.acknowledged + 1
        text = f"{number} of {self.name}: {words}" if number > self.asked else self.last
        self.asked, self.last = number, text
        after = {"after": f"m{number - 1}"} if number > 1 else {}
        return {"messages": [{"role": "user", "content": text}], **after}

    def _note_error(self, kind: str, answer: CallToolResult) -> None:
        texts = [block.text for block in answer.content if isinstance(block, TextContent)]
        text = " ".join(texts)[:160]
        # A refusal that says what to do is an answer: a full block of pins, a compaction under way.
        is_told = kind in ("pin", "compress")
        (self.run.waits if is_told or "try again" in text else self.run.errors)[text] += 1

    async def check(self, address: str) -> list[str]:
        """What is wrong with what was kept of this session."""
        store = await open_store(address, self.owner)
        try:
            info = await store.find_session(Scope(project="team"), self.name)
            if info is None:
                return [f"{self.name} is not there"] if self.acknowledged else []
            found = await store.originals(Scope(project="team", session=info.id), limit=1_000_000)
            seqs = [one.message.seq for one in found]
            numbers = [int(one.message.text.partition(" ")[0]) for one in found]
            wrong = [f"{self.name} has gaps"] if seqs != list(range(1, len(seqs) + 1)) else []
            if numbers != list(range(1, len(numbers) + 1)):
                wrong.append(f"{self.name} has messages twice or out of order: {numbers}")
            if len(numbers) < self.acknowledged:
                wrong.append(f"{self.name} lost {self.acknowledged - len(numbers)} messages")
            return wrong
        finally:
            await store.close()


def _name_of(error: BaseException) -> str:
    if isinstance(error, BaseExceptionGroup):
        return _name_of(cast("BaseExceptionGroup[BaseException]", error).exceptions[0])
    return f"{type(error).__name__}: {error}"[:100]


def serve(address: str, home: Path, port: int) -> None:
    """Serve as the command does, in this process."""
    home.mkdir(parents=True, exist_ok=True)
    with (home / "stderr").open("w", encoding="utf-8") as told:
        os.dup2(told.fileno(), 2)
    os.environ.update(environ_for(address, home))
    sys.argv = ["mcp-compaction", "serve", "--http", "--port", str(port)]
    run_command()


class Servers:
    """The server processes, each of which can be killed and started again on its port.

    They are forked off one that has read the modules, which takes longer than all the rest.
    """

    def __init__(self, server: Server, folder: Path, number: int) -> None:
        self._address, self._folder = server.address_of(ROLE), folder
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(list(_PRELOADED))
        self.ports = [_free_port() for _ in range(number)]
        self._running = [self._start(n) for n in range(number)]

    def _start(self, number: int) -> ForkServerProcess:
        home, port = self._folder / str(number), self.ports[number]
        running = self._context.Process(target=serve, args=(self._address, home, port))
        running.start()
        wait_until_ready(port)
        return running

    def kill(self, number: int) -> None:
        """Kill one, as a machine that is gone, and start it again."""
        self._end(number)
        self._running[number] = self._start(number)

    def _end(self, number: int) -> None:
        self._running[number].kill()
        self._running[number].join()

    def close(self) -> None:
        """Kill all."""
        for number in range(len(self._running)):
            self._end(number)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


async def measure(args: argparse.Namespace, server: Server, folder: Path) -> int:
    """Run the load, then look at every session."""
    await database.migrate(server.address, grant_to=ROLE)
    tokens = {f"o{n}": await new_token(server, f"o{n}") for n in range(OWNERS)}
    servers = await anyio.to_thread.run_sync(Servers, server, folder, args.servers)
    chance = Random(39)
    run = Run(servers.ports, chance)
    speakers = [
        Speaker(run, tokens[f"o{n % OWNERS}"], f"o{n % OWNERS}", f"s{n}")
        for n in range(args.sessions)
    ]
    try:
        async with anyio.create_task_group() as tasks:
            for speaker in speakers:
                tasks.start_soon(speaker.go_on)
            async with anyio.create_task_group() as ends:
                ends.start_soon(anyio.sleep, args.seconds)
                # A server that starts while the database does not run would not start at all.
                at_once = 1 if args.restarts else max(1, args.servers // 2)
                for number in range(at_once):
                    own = range(number, args.servers, at_once)
                    ends.start_soon(disturb, args, run, server, servers, own)
            run.is_over = True
    finally:
        await anyio.to_thread.run_sync(servers.close)
    wrong = [line for one in speakers for line in await one.check(server.address)]
    show(run, speakers, args)
    for line in [*wrong, *(f"error, {n} times: {text}" for text, n in run.errors.items())]:
        print(line)
    for text, number in run.waits.most_common(8):
        print(f"told to wait or refused, {number} times: {text}")
    print("nothing was lost" if not wrong else f"{len(wrong)} sessions are wrong", flush=True)
    return 1 if wrong or run.errors else 0


async def disturb(
    args: argparse.Namespace, run: Run, server: Server, servers: Servers, own: Sequence[int]
) -> None:
    """Kill some of the servers, and crash PostgreSQL, at random until it was often enough."""
    chance = run.chance
    while run.killed < args.kills or run.restarted < args.restarts:
        await anyio.sleep(chance.random() * 2)
        if run.restarted < args.restarts and chance.random() < 0.3:
            run.restarted += 1
            await anyio.to_thread.run_sync(server.stop, "immediate")
            await anyio.to_thread.run_sync(server.start)
        elif run.killed < args.kills:
            run.killed += 1
            await anyio.to_thread.run_sync(servers.kill, chance.choice(own))
        progress(f"{run.killed} kills, {run.restarted} restarts")


def show(run: Run, speakers: list[Speaker], args: argparse.Namespace) -> None:
    """Print what was done."""
    progress("")
    total = sum(one.acknowledged for one in speakers)
    print(
        f"{args.servers} servers, {args.sessions} sessions of {OWNERS} owners, "
        f"{time.monotonic() - run.began:.0f} s; {run.killed} servers killed, "
        f"{run.restarted} crashes of PostgreSQL\n"
        f"{total:,} messages acknowledged, {sum(run.errors.values())} errors"
    )
    rows = [{"call": kind, "calls": len(ms)} | times(ms) for kind, ms in sorted(run.taken.items())]
    columns = {"call": "", "calls": ",d", "p50 ms": ",.0f", "p95 ms": ",.0f"}
    print(table_text(Table(title="Calls over HTTP", columns=columns, rows=rows)))


def main(argv: list[str] | None = None) -> int:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--servers", type=int, default=8)
    parser.add_argument("--sessions", type=int, default=200)
    parser.add_argument("--seconds", type=int, default=120, help="at least, and until all is done")
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--restarts", type=int, default=0, help="of PostgreSQL, as if it crashed")
    args = parser.parse_args(argv)
    with running_server("-c", "max_connections=200") as server, tempfile.TemporaryDirectory() as at:
        return asyncio.run(measure(args, server, Path(at)))


if __name__ == "__main__":
    sys.exit(main())
