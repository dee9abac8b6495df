"""How many of the errors that still stand a view shows, beside a plain tail of as many tokens.

    python benchmarks/standing_errors.py SESSIONS.jsonl.gz [--rounds 2]

Sessions are JSON lines with a `messages` list in the shape of the Messages API, plain or gzip. Each
is cut at 60 % and compacted there, or also on the way to it, to 25 and to 10 %. An error stands
where the last run of a command, known by its first three words, printed one.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import re
import sys
import tempfile
from itertools import chain
from pathlib import Path
from typing import Any, cast

sys.path.insert(0, str(Path(__file__).parents[1]))

from mcp_compaction import open_store
from mcp_compaction.counters.o200k import best_counter
from mcp_compaction.evals.corpora import line_of
from mcp_compaction.evals.handover import SMALLEST_WINDOW
from mcp_compaction.evals.handover_sessions import CUT

PERCENTS = (25.0, 10.0)
_ERROR = re.compile(
    r"^.*(?:\b\w*(?:Error|Exception)\b:|\berror:|command not found|No such file|FAILED |fatal:).*$",
    re.M,
)
_FOLDER = re.compile(r"^\s*(?:cd \S+\s*(?:&&|;)\s*)+")
_SHOWN = 60  # characters by which an error line is known
_SHORTEST = 12

Json = dict[str, Any]


def standing_errors(messages: list[Json]) -> list[str]:
    """The last error line of each command whose last run printed one, the oldest first."""
    runs: dict[str, str] = {}
    found: dict[str, str] = {}
    told_in = (message["content"] for message in messages)
    blocks = (cast(list[Json], content) for content in told_in if isinstance(content, list))
    for block in chain.from_iterable(blocks):
        if block["type"] == "tool_use" and isinstance(block["input"].get("command"), str):
            words = _FOLDER.sub("", block["input"]["command"]).split()[:3]
            runs[block["id"]] = " ".join(words)
        elif block["type"] == "tool_result" and block["tool_use_id"] in runs:
            command = runs[block["tool_use_id"]]
            found.pop(command, None)
            lines = [line.strip() for line in _ERROR.findall(_text_of(block["content"]))]
            if told := [line[:_SHOWN] for line in lines if len(line) >= _SHORTEST]:
                found[command] = told[-1]
    return list(found.values())


def _text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(block.get("text", "") for block in content or ())


def _tail_of(text: str, tokens: int) -> str:
    """The newest lines of a text, as many as so many tokens hold."""
    kept: list[str] = []
    for line in reversed(text.splitlines()):
        tokens -= best_counter().count(line) + 1
        if tokens < 0:
            break
        kept.append(line)
    return "\n".join(reversed(kept))


async def view_of(messages: list[Json], percent: float, rounds: int) -> str:
    """The view of a session that was compacted so many times while it grew."""
    text = "\n".join(line_of(message).text for message in messages)
    window = max(SMALLEST_WINDOW, best_counter().count(text))
    with tempfile.TemporaryDirectory() as home:
        async with open_store(home=Path(home), project="/errors") as store:
            session = await store.session("errors", window_tokens=window)
            begin = 0
            for number in range(1, rounds + 1):
                end = len(messages) * number // rounds
                while end < len(messages) and messages[end]["role"] != "assistant":
                    end += 1
                await session.record(messages[begin:end])
                await session.compress("the window is nearly full", target_percent=percent)
                begin = end
            body = await session.request("anthropic")
    return "\n".join(line_of(message).text for message in body["messages"])


async def measure(sessions: list[list[Json]], rounds: int) -> None:
    """Print the errors that stand, and how many of them views and tails show."""
    for percent in PERCENTS:
        errors = ours = tail = 0
        for whole in sessions:
            messages = whole[: int(len(whole) * CUT)]
            standing = standing_errors(messages)
            if not standing:
                continue
            view = await view_of(messages, percent, rounds)
            text = "\n".join(line_of(message).text for message in messages)
            plain = _tail_of(text, best_counter().count(view))
            errors += len(standing)
            ours += sum(error in view for error in standing)
            tail += sum(error in plain for error in standing)
        share = f"ours {ours / errors:.2f}, tail {tail / errors:.2f}" if errors else "none"
        print(f"{percent:g} %, {rounds} compactions: {errors} errors stand: {share}", flush=True)


def main() -> None:
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sessions", type=Path)
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    read = gzip.open if options.sessions.suffix == ".gz" else open
    with read(options.sessions, "rt", encoding="utf-8") as lines:
        sessions = [json.loads(line)["messages"] for line in lines]
    asyncio.run(measure(sessions, options.rounds))


if __name__ == "__main__":
    main()
