"""How long others wait: a host for the end, a client for an answer, a user for the demo.

    python benchmarks/waits.py
    python benchmarks/waits.py --rounds 20 --calls 2500

What is promised holds on a machine with nothing else to do: a host kills a server that is not gone
after 2 s, and no answer takes longer than that; the first one comes within 3 s, the hook is done
within 2 s, no write beside fifteen other writers takes over half a second, and the demo ends within
20 s. The tests check that all of it happens, not how soon, so that they pass on a busy machine.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from time import monotonic

sys.path.insert(0, str(Path(__file__).parents[1]))  # the host and the calls live with the tests

from tests.server.fuzzing import any_call
from tests.server.host import Host, call, request, toy, wait_for
from tests.server.test_fuzz import AT_ONCE, SERVER

STATES = {"idle": None, "async tool": "nap", "thread tool": "block", "busy loop": "hog"}
WAYS = ("EOF", "SIGTERM", "SIGINT", "SIGHUP")
GONE, ANSWERED, BEGUN, HOOKED, WRITTEN, PLAYED = 2.0, 2.0, 3.0, 2.0, 0.5, 20.0
KILLING = Path(__file__).parents[1] / "tests" / "store" / "killing.py"


def main(argv: Sequence[str] | None = None) -> None:
    """Print each wait beside what is promised."""
    parser = argparse.ArgumentParser(description="How long others wait for us.")
    parser.add_argument("--rounds", type=int, default=5, help="how often each end is measured")
    parser.add_argument("--calls", type=int, default=500, help="how many tools are called")
    parser.add_argument("--no-writers", action="store_true", help="leave the 16 writers out")
    parser.add_argument("--no-demo", action="store_true", help="leave the demo out")
    options = parser.parse_args(argv)
    print("wait for ...                      median     worst  promised")
    for state in STATES:
        for way in WAYS:
            times = [seconds_to_leave(way, state) for _ in range(options.rounds)]
            print_row(f"the end: {way}, {state}", times, GONE)
    print_row(f"{options.calls} answers", seconds_to_answer(options.calls), ANSWERED)
    print_row("the first answer", [seconds_to_begin() for _ in range(options.rounds)], BEGUN)
    print_row("the hook: pins", [seconds_of_hook() for _ in range(options.rounds)], HOOKED)
    if not options.no_writers:
        print_row("the slowest of 8,000 writes", [seconds_of_slowest_write()], WRITTEN)
    if not options.no_demo:
        print_row("the demo", [seconds_of_demo()], PLAYED)


def print_row(name: str, times: Sequence[float], promised: float) -> None:
    """One line of the table; a promise that was not kept is named."""
    median, worst = statistics.median(times), max(times)
    kept = "" if worst <= promised else "  NOT KEPT"
    print(f"{name:<30} {median:7.2f} s {worst:7.2f} s {promised:7g} s{kept}")


def seconds_to_leave(way: str, state: str) -> float:
    """From the wish that a server ends to its end, while a tool does what the state says."""
    with tempfile.TemporaryDirectory() as folder:
        mark = Path(folder) / "started"
        with toy(env={"TOY_STARTED": str(mark)}) as host:
            host.greet()
            if tool := STATES[state]:
                host.send(call(1, tool))
                wait_for(mark)
            began = monotonic()
            if way == "EOF":
                host.close_stdin()
            else:
                host.process.send_signal(getattr(signal, way))
            host.process.wait()
            return monotonic() - began


def seconds_to_answer(calls: int) -> list[float]:
    """From sending each of many odd calls, a few at once, to its answer."""
    random = Random("waits")
    times: list[float] = []
    with _serving() as host:
        host.greet()
        host.send(request("tools", "tools/list"))
        tools = host.reply_to("tools")["result"]["tools"]
        for start in range(0, calls, AT_ONCE):
            began = monotonic()
            waiting = {start + n for n in range(min(AT_ONCE, calls - start))}
            host.send(*(any_call(random, id, tools) for id in sorted(waiting)))
            while waiting:
                waiting.discard(host.receive().get("id"))
                times.append(monotonic() - began)
                began = monotonic()
    return times


def seconds_to_begin() -> float:
    """From the start of a server to its first answer."""
    began = monotonic()
    with _serving() as host:
        host.greet()
        return monotonic() - began


def seconds_of_hook() -> float:
    """The hook that shows pins again, from its start to its end, beside a store."""
    with tempfile.TemporaryDirectory() as folder, _serving_in(folder) as host:
        host.greet()
        host.send(call(1, "pin_constraint", text="Never push to main.", session="waits"))
        host.reply_to(1)
        event = json.dumps({"session_id": "waits", "source": "compact", "cwd": folder})
        began = monotonic()
        subprocess.run(
            [SERVER[0], "pins", "--home", folder],
            input=event.encode(),
            stdout=subprocess.DEVNULL,
            check=True,
        )
        return monotonic() - began


def seconds_of_slowest_write() -> float:
    """The slowest write of sixteen processes that write 500 messages each into one session."""
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, str(KILLING), "many_writers", folder, "500"]
        ran = subprocess.run(words, stdout=subprocess.PIPE, check=True)
        return json.loads(ran.stdout)["slowest"]


@contextmanager
def _serving() -> Generator[Host]:
    with tempfile.TemporaryDirectory() as folder, _serving_in(folder) as host:
        yield host


@contextmanager
def _serving_in(folder: str) -> Generator[Host]:
    env = {
        "MCP_COMPACTION_HOME": folder,
        "MCP_COMPACTION_COUNTER": "estimate",
        "MCP_COMPACTION_WINDOW_TOKENS": "5000",
    }
    with toy(command=SERVER, env=env) as host:
        yield host


def seconds_of_demo() -> float:
    """The demo from its start to its end."""
    with tempfile.TemporaryDirectory() as folder:
        environ = {"HOME": folder, "PATH": os.environ["PATH"]}
        began = monotonic()
        subprocess.run([SERVER[0], "demo"], env=environ, stdout=subprocess.DEVNULL, check=True)
        return monotonic() - began


if __name__ == "__main__":
    main()
