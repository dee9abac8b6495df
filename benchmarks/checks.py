"""Ten usual checks on the calls of recorded sessions: what they hold, and how fast.

    python benchmarks/checks.py SESSIONS.jsonl.gz [--show]

SESSIONS: a session a line, `{"name", "messages"}` in the shape of the Messages API. Prints how many
calls each check holds, with --show each of them to be read, and how long a hook takes at a call
beside a hook that only reads what it is told, in one run: what counts is the difference.
"""

from __future__ import annotations

import gzip
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mcp_compaction.checks.biting import text_of
from mcp_compaction.checks.check import parse_check
from mcp_compaction.checks.file import write_rules
from mcp_compaction.checks.judge import Deed, Rule, is_green, judge
from mcp_compaction.checks.match import Call

CHECKS = (
    "deny Bash: git push --force*",
    "deny Bash: git push main",
    "deny Bash: git reset --hard",
    "ask Bash: rm -rf",
    "deny Bash: git commit --no-verify",
    "deny Write|Edit: .env",
    "deny Write|Edit: node_modules/**",
    "ask Bash: sudo",
    "ask Bash: *prod-db-2*",
    "must tests before Bash: git commit",
)
RUNS = 60
PLAIN = "import json, sys; json.load(sys.stdin)"


def sessions_in(path: str) -> Iterator[dict[str, Any]]:
    """The sessions of a file."""
    data = Path(path).read_bytes()
    text = gzip.decompress(data) if path.endswith(".gz") else data
    yield from map(json.loads, text.splitlines())


def calls_of(session: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any], bool | None]]:
    """The calls of a session, and whether they came out well."""
    blocks = [
        block
        for message in session["messages"]
        if isinstance(message["content"], list)
        for block in message["content"]
    ]
    results = {b["tool_use_id"]: b for b in blocks if b.get("type") == "tool_result"}
    for block in blocks:
        if block.get("type") == "tool_use":
            found = results.get(block["id"])
            green = None
            if found is not None:
                green = is_green(bool(found.get("is_error")), text_of(found.get("content")))
            yield block["name"], block["input"], green


def replay(path: str, *, shows: bool) -> None:
    """Judge every call, and print what was held."""
    rules = [Rule(n, line, (parse_check(line),)) for n, line in enumerate(CHECKS)]
    held, total, spent = Counter[str](), 0, list[float]()
    for session in sessions_in(path):
        deeds: list[Deed] = []
        for tool, given, green in calls_of(session):
            total += 1
            begun = time.perf_counter()
            found = judge(Call(tool, given, "/work", "/work"), rules, deeds[::-1].__iter__)
            spent.append(time.perf_counter() - begun)
            for one in found:
                held[str(one.check)] += 1
                if shows:
                    part = " ".join(one.part.split())[:150]
                    print(f"{session['name']} | {one.verdict} | {one.check} | {part}")
            deeds.append(Deed(tool, given, green))
    spent.sort()
    print(f"{total:,} calls; judged in {1000 * spent[len(spent) // 2]:.2f} ms, p95", end=" ")
    print(f"{1000 * spent[int(len(spent) * 0.95)]:.2f} ms")
    for line in CHECKS:
        print(f"{held[line]:6}  {line}")


def time_hooks() -> None:
    """Time our hook beside a plain one, in turns, so that both have the same machine."""
    program = str(Path(sys.executable).with_name("mcp-compaction"))
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        rules = [
            Rule(n, line, (parse_check(line),), scope="global") for n, line in enumerate(CHECKS)
        ]
        write_rules(home, rules)
        told = {"session_id": "s", "cwd": folder, "tool_name": "Bash", "tool_use_id": "t"}
        call = json.dumps({**told, "tool_input": {"command": "cd src && git status | head -5"}})
        ours = [program, "hook", "claude-code", "PreToolUse", "--home", folder]
        plain = [sys.executable, "-c", PLAIN]
        guard = ["/bin/sh", "-c", f"[ ! -s {folder}/none ] || {program}"]
        taken: dict[str, list[float]] = {"plain": [], "ours": [], "no checks": []}
        cpu = dict.fromkeys(taken, 0.0)
        for _ in range(RUNS):
            for name, words in (("plain", plain), ("ours", ours), ("no checks", guard)):
                before = resource.getrusage(resource.RUSAGE_CHILDREN)
                begun = time.perf_counter()
                subprocess.run(words, input=call, text=True, check=True, capture_output=True)
                taken[name].append(1000 * (time.perf_counter() - begun))
                after = resource.getrusage(resource.RUSAGE_CHILDREN)
                spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
                cpu[name] += 1000 * spent / RUNS
    for name, times in taken.items():
        times.sort()
        print(
            f"{name:>9}: median {times[RUNS // 2]:.0f} ms, p95 {times[int(RUNS * 0.95)]:.0f} ms",
            end="",
        )
        print(f"; {cpu[name]:.0f} ms of the processor")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        replay(sys.argv[1], shows="--show" in sys.argv)
    time_hooks()
