"""How soon a host has the list of our tools, beside the npm package `server-memory`.

    npm install --prefix DIR @modelcontextprotocol/server-memory
    python benchmarks/startup.py --npm DIR [--times 10] [--era legacy]

Both are started in turn, as a host starts them, in a home folder that is empty; from the start of
the process to the answer of `tools/list`. Printed are the median and the smallest wall time, the
median of the CPU time and the memory when the list has come, then our shares of the other's. Others
may be at work on the machine: the shares mean more than the times. Without `--npm` ours runs alone.
The next line is of a call after the list, the first that needs the SDK, and of the memory then.
The last lines are the CPU time, user and system, of commands that only read, on a session of 200
messages, of a hook that has nothing to do, and of those that show pins from the store, beside the
floor: Python alone, with asyncio and SQLite, and with pydantic besides, and as a multiple of the
last. Python keeps what it compiled, as it does where pip has installed us, whatever
PYTHONDONTWRITEBYTECODE says. With `--idle` it also prints the memory of a server that has counted,
recalled and compressed, and two minutes after that.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mcp_compaction import compactor
from mcp_compaction.compactor.results import PinWish
from mcp_compaction.ports import SessionKey
from mcp_compaction.settings import load_settings
from mcp_compaction.wiring import open_workspace

OURS = (str(Path(sys.executable).with_name("mcp-compaction")),)
CLIENT = {"name": "benchmark", "version": "0"}
LEGACY: Sequence[Mapping[str, Any]] = (
    {
        "id": 0,
        "method": "initialize",
        "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": CLIENT},
    },
    {"method": "notifications/initialized"},
    {"id": 1, "method": "tools/list", "params": {}},
)
ENVELOPE = {
    "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": CLIENT,
        "io.modelcontextprotocol/clientCapabilities": {},
    }
}
MODERN: Sequence[Mapping[str, Any]] = (
    {"id": 0, "method": "server/discover", "params": ENVELOPE},
    {"id": 1, "method": "tools/list", "params": ENVELOPE},
)


class Start(NamedTuple):
    """One start: until the list was there, and after a first call where one was made."""

    wall: float
    cpu: float
    megabytes: float
    call: float = 0.0
    megabytes_after: float = 0.0


def start(words: Sequence[str], messages: Sequence[Mapping[str, Any]], call: str) -> Start:
    """Start a server, ask for its tools, and where asked for make a call."""
    with tempfile.TemporaryDirectory() as home:
        env = {**environment(home), "MEMORY_FILE_PATH": f"{home}/memory.json"}
        began = time.perf_counter()
        with subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=env,
            cwd=home,
        ) as process:
            assert process.stdin
            assert process.stdout

            def ask(message: Mapping[str, Any]) -> None:
                assert process.stdin
                process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
                process.stdin.flush()

            def wait_for(id: int) -> None:
                assert process.stdout
                while json.loads(process.stdout.readline()).get("id") != id:
                    pass

            for message in messages:
                ask(message)
            wait_for(1)
            found = Start(time.perf_counter() - began, *used_by(process.pid))
            if call:
                params: dict[str, Any] = {**messages[-1]["params"], "name": call, "arguments": {}}
                began = time.perf_counter()
                ask({"id": 2, "method": "tools/call", "params": params})
                wait_for(2)
                took = time.perf_counter() - began
                found = found._replace(call=took, megabytes_after=used_by(process.pid)[1])
            process.stdin.close()
            process.wait(30)
            return found


def used_by(pid: int) -> tuple[float, float]:
    """The seconds of CPU that a process has used, and the megabytes that it holds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
    ticks = int(fields[11]) + int(fields[12])
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return ticks / os.sysconf("SC_CLK_TCK"), pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def environment(home: str) -> dict[str, str]:
    """The environment of a user whose home folder is that one."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**env, "HOME": home, "MCP_COMPACTION_HOME": f"{home}/store"}


FLOOR = {
    "python -c pass": "pass",
    "+ asyncio, sqlite3": "import asyncio, sqlite3",
    "+ pydantic": "import asyncio, sqlite3; from pydantic import BaseModel",
}
READERS = {
    "sessions": ("sessions", "--all"),
    "pins": ("pins", "--session", "chat"),
    "recall": ("recall", "--session", "chat", "port", "of", "the", "service"),
    "stats": ("stats", "--session", "chat"),
    "a hook": ("hook", "claude-code", "PreToolUse"),
    "pins after /compact": ("hook", "claude-code", "SessionStart"),
    "pins at a prompt": ("hook", "gemini", "BeforeAgent"),
}


def cpu_of(words: Sequence[str], home: str, told: str = "") -> float:
    """The seconds of CPU of one process that is run to its end."""
    before = os.times()
    run = subprocess.run
    run(
        words, input=told.encode(), env=environment(home), cwd=home, capture_output=True, check=True
    )
    after = os.times()
    user = after.children_user - before.children_user
    return user + after.children_system - before.children_system


def keep_chat(home: str) -> None:
    """Record a session of 200 messages and a pin."""
    roles = ("user", "assistant")
    said = [
        {"role": roles[n % 2], "content": f"Service {n} listens on port {8000 + n}."}
        for n in range(200)
    ]
    chat = "\n".join(map(json.dumps, said))
    place = ("--session", "chat", "--project", home)
    cpu_of((*OURS, "record", "-", *place), home, chat)
    cpu_of((*OURS, "pin", "Never push to main.", *place), home)
    asyncio.run(pin_in_chats(home))


async def pin_in_chats(home: str) -> None:
    """Pin a rule in a chat of each host whose hooks show pins."""
    work = await open_workspace(load_settings(environment(home)))
    try:
        for host in ("claude-code", "gemini"):
            key = SessionKey(project=os.path.realpath(home), host=host, host_session="chat")
            info, _ = await compactor.open_session(work, key)
            await compactor.pin(work, info, PinWish("Never push to main.", by="user"))
    finally:
        await work.store.close()


def tell_commands(times: int) -> None:
    """Run each command in turn and print the medians of their CPU time."""
    words: dict[str, Sequence[str]] = {
        name: (sys.executable, "-c", code) for name, code in FLOOR.items()
    }
    with tempfile.TemporaryDirectory() as home:
        keep_chat(home)
        for name, typed in READERS.items():
            place = () if typed[0] == "hook" else ("--project", home)
            words[name] = (*OURS, *typed, *place)
        about = {"session_id": "chat", "cwd": home, "source": "compact"}
        told = json.dumps({**about, "tool_name": "Read", "tool_input": {}})
        used: dict[str, list[float]] = {name: [] for name in words}
        for _ in range(times + 1):
            for name, one in words.items():
                used[name].append(cpu_of(one, home, told if "hook" in one else ""))
    print(f"CPU of one process, median of {times}, in turn")
    medians = {name: statistics.median(found[1:]) for name, found in used.items()}
    floor = medians["+ pydantic"]
    for name, median in medians.items():
        print(f"{name:20} {1000 * median:5.0f} ms  {median / floor:5.2f}")


def tell_use() -> None:
    """Print what a server holds that was used, and after two minutes in which it was not."""
    with tempfile.TemporaryDirectory() as home:
        keep_chat(home)
        env = {**environment(home), "MCP_COMPACTION_WINDOW_TOKENS": "4000"}
        with subprocess.Popen(
            OURS, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, cwd=home, text=True
        ) as process:
            assert process.stdin
            assert process.stdout
            calls: Mapping[str, Mapping[str, str]] = {
                "context_stats": {},
                "recall_archived": {"query": "port of service 7"},
                "compress_context": {"reason": "boundary"},
            }
            asked = [
                {
                    "id": n,
                    "method": "tools/call",
                    "params": {"name": name, "arguments": {"session": "chat", **given}},
                }
                for n, (name, given) in enumerate(calls.items(), 2)
            ]
            for message in (*LEGACY, *asked):
                process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
                process.stdin.flush()
                while "id" in message and (said := json.loads(process.stdout.readline())):
                    if said.get("id") == message["id"]:
                        assert not said["result"].get("isError"), said
                        break
            after = used_by(process.pid)[1]
            time.sleep(125)
            idle = used_by(process.pid)[1]
            process.stdin.close()
            process.wait(30)
    print(f"after use {after:.0f} MB; two minutes later {idle:.0f} MB")


def tell(name: str, starts: Sequence[Start]) -> str:
    """A line of the table."""
    walls = sorted(one.wall for one in starts)
    cpu = statistics.median(one.cpu for one in starts)
    memory = statistics.median(one.megabytes for one in starts)
    return (
        f"{name:16} median {1000 * statistics.median(walls):5.0f} ms   least "
        f"{1000 * walls[0]:5.0f} ms   CPU {1000 * cpu:4.0f} ms   {memory:4.0f} MB"
    )


def main() -> None:
    """Start both in turn and print the table."""
    parser = argparse.ArgumentParser(description="how soon our tools are listed")
    parser.add_argument("--npm", type=Path, help="the folder with server-memory")
    parser.add_argument("--times", type=int, default=10)
    parser.add_argument("--idle", action="store_true", help="the memory after use, and idle")
    parser.add_argument("--era", choices=("legacy", "modern"), default="legacy")
    asked = parser.parse_args()
    messages = LEGACY if asked.era == "legacy" else MODERN
    ours: list[Start] = []
    theirs: list[Start] = []
    other: tuple[str, ...] = ()
    if asked.npm is not None:
        node = shutil.which("node") or "node"
        package = asked.npm.absolute() / "node_modules/@modelcontextprotocol/server-memory"
        other = (node, str(package / "dist/index.js"))
    start(OURS, messages, "context_stats")  # so that all of it is compiled
    for _ in range(asked.times):
        ours.append(start(OURS, messages, ""))
        if other:
            theirs.append(start(other, LEGACY, ""))
    print(f"until tools/list is answered, {asked.times} starts each, in turn; {asked.era}")
    print(tell("mcp-compaction", ours))
    if theirs:
        print(tell("server-memory", theirs))
        sooner = sum(one.wall < two.wall for one, two in zip(ours, theirs, strict=True))
        share = statistics.median(
            one.wall / two.wall for one, two in zip(ours, theirs, strict=True)
        )
        print(f"ours was sooner {sooner} of {asked.times} times; median share {share:.2f}")
    called = start(OURS, messages, "context_stats")
    print(
        f"the first call that needs the SDK: {called.call:.2f} s; then "
        f"{called.megabytes_after:.0f} MB"
    )
    tell_commands(asked.times)
    if asked.idle:
        tell_use()


if __name__ == "__main__":
    main()
