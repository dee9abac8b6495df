"""How much longer a short run of the real Claude Code takes with us than without.

    MCP_COMPACTION_HOSTS=FOLDER python benchmarks/short_runs.py [--times 5] [--load 10]

`claude -p Hello` against a scripted model that answers at once, with us and without in turn: until
the first request came, until the run was over, the CPU of it all, and how often our tools stood in
that request. With `--load` as many processes are busy beside it. FOLDER as tests/hosts/install.sh
makes it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))  # the hosts live with the tests

from tests.hosts.live import ClaudeCode, binary_of, install
from tests.hosts.scripted_model import OWN_TOOLS, ScriptedModel, Step, serve_model


class Run(NamedTuple):
    """One run: seconds, and whether our tools stood in its first request."""

    first: float
    whole: float
    cpu: float
    has_tools: bool


class TimedModel(ScriptedModel):
    """Notes when each request of the agent came, and whether it had our tools."""

    def __init__(self) -> None:
        super().__init__()
        self.waits_for_us = False
        self.came: list[tuple[float, bool]] = []

    def next_step(self, body: dict[str, Any]) -> Step:
        """Answer at once."""
        tools = json.dumps(body.get("tools") or [])
        self.came.append((time.perf_counter(), OWN_TOOLS in tools))
        return Step("Good day.")


def run(host: ClaudeCode, model: TimedModel) -> Run:
    """Run Claude Code once."""
    model.came.clear()
    environ = {name: value for name, value in host.environ.items() if "COUNTER" not in name}
    used, began = os.times(), time.perf_counter()
    command = [binary_of("claude-code"), "-p", "Hello."]
    subprocess.run(
        command,
        cwd=host.project,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        timeout=120,
        check=True,
    )
    ended, now = time.perf_counter(), os.times()
    cpu = now.children_user + now.children_system - used.children_user - used.children_system
    came, has_tools = model.came[0]
    return Run(came - began, ended - began, cpu, has_tools)


@contextmanager
def busy(processes: int) -> Generator[None]:
    """Have as many processes busy."""
    command = [sys.executable, "-c", "while True: pass"]
    others = [subprocess.Popen(command) for _ in range(processes)]
    try:
        yield
    finally:
        for one in others:
            one.kill()
            one.wait()


def tell(name: str, runs: Sequence[Run]) -> str:
    """A line of the table."""
    first, whole, cpu = (median(one[n] for one in runs) for n in range(3))
    tools = sum(one.has_tools for one in runs)
    return f"{name:8} {first:10.2f} {whole:10.2f} {cpu:10.2f} {tools:6} of {len(runs)}"


def main() -> None:
    """Run both in turn, and print the table."""
    parser = argparse.ArgumentParser(description="how long short runs of Claude Code take")
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--load", type=int, default=0, help="processes that are busy beside it")
    asked = parser.parse_args()
    ours: list[Run] = []
    theirs: list[Run] = []
    model = TimedModel()
    with tempfile.TemporaryDirectory() as folder, serve_model(model), busy(asked.load):
        hosts = [ClaudeCode(Path(folder) / name, model) for name in ("with", "without")]
        for host in hosts:
            host.project.mkdir(parents=True)
        install("claude-code", hosts[0].environ, hosts[0].project)
        for number in range(asked.times + 1):
            for host, runs in zip(hosts, (ours, theirs), strict=True):
                one = run(host, model)
                if number:  # the first of each writes down what it has compiled
                    runs.append(one)
    print(f"claude -p, medians of {asked.times} in turn, beside a load of {asked.load}: seconds")
    print(f"{'':8} {'request':>10} {'whole':>10} {'CPU':>10} {'our tools':>11}")
    print(tell("without", theirs))
    print(tell("with us", ours))
    shares = [median(a[n] / b[n] for a, b in zip(ours, theirs, strict=True)) for n in range(3)]
    print("{:8} {:10.2f} {:10.2f} {:10.2f}".format("share", *shares))


if __name__ == "__main__":
    main()
