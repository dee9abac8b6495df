"""Long tasks on a real model, with mcp-compaction and with summaries of the model's own.

    ANTHROPIC_API_KEY=… python examples/live_bench/live_bench.py [--model NAME] [--tasks 4]

Each task states a rule and a few values first, then hands over logs in three stretches, each
followed by a compaction. The last question can only be answered with what was said first. Both
ways get the same logs and the same model. Printed are the tasks solved after three compactions, the
tokens that the provider counted, and what they cost at `--price IN OUT` (dollars for a million
tokens, without a cache).
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple

import httpx2

from mcp_compaction import open_store

Json = dict[str, Any]

STRETCHES = 3
LOGS = 2  # in a stretch
LINES = 220  # of a log
WINDOW = 32_000  # tokens
SUMMARIZE = (
    "Summarize our work so far for another assistant who goes on with it: rules, values, state. "
    "Answer with the summary alone."
)


class Task(NamedTuple):
    """A task whose answer was said in its first message."""

    opening: str
    question: str
    answers: tuple[str, ...]


@dataclass
class Model:
    """A model that is asked over the Messages API, and what it has counted."""

    url: str
    key: str
    name: str
    read: int = 0
    written: int = 0

    def ask(self, body: Json) -> str:
        """The text of an answer."""
        headers = {"x-api-key": self.key, "anthropic-version": "2023-06-01"}
        asked = {"max_tokens": 1024, **body, "model": self.name}
        answer = httpx2.post(f"{self.url}/v1/messages", json=asked, headers=headers, timeout=300)
        if answer.status_code != 200:
            raise SystemExit(f"the provider refused a request: {answer.text[:500]}")
        told: Json = answer.json()
        self.read += told["usage"]["input_tokens"]
        self.written += told["usage"]["output_tokens"]
        return "".join(block.get("text", "") for block in told["content"])


def make_task(number: int) -> Task:
    """One of any number of tasks, each the same in every run."""
    chance = Random(number)
    port, build = chance.randint(20_000, 60_000), f"{chance.getrandbits(40):010x}"
    path = f"/srv/app{number}/conf/limits-{chance.randint(100, 999)}.toml"
    return Task(
        f"We look for a leak in service {number}. Never restart the node db-{number}-primary. "
        f"The cache listens on port {port}, the last good build is {build}, and the limits are in "
        f"{path}. I hand you the logs now; answer each with one short sentence.",
        "Before we end, three values from the beginning, each on a line of its own: the port of "
        "the cache, the last good build, the path of the limits. Then name the node that must "
        "never be restarted.",
        (str(port), build, path, f"db-{number}-primary"),
    )


def log(number: int, stretch: int, part: int) -> str:
    """A log without anything that matters, of about 5,000 tokens."""
    chance = Random(f"{number} {stretch} {part}")
    lines = [
        f"12:{n // 60:02}:{n % 60:02} worker-{chance.randint(1, 9)} handled request "
        f"{chance.getrandbits(32):08x} in {chance.randint(1, 900)} ms"
        for n in range(LINES)
    ]
    return "\n".join([f"Log {stretch}.{part}:", *lines])


def with_us(task: Task, number: int, model: Model) -> str:
    """The last answer where our digests stand for what has left."""
    with (
        tempfile.TemporaryDirectory() as home,
        open_store(home=home, window_tokens=WINDOW) as store,
    ):
        session = store.session(f"task-{number}")

        def say(text: str) -> str:
            session.record({"role": "user", "content": text})
            answer = model.ask(session.request("anthropic"))
            session.record({"role": "assistant", "content": answer})
            return answer

        say(task.opening)
        for stretch in range(STRETCHES):
            for part in range(LOGS):
                say(log(number, stretch, part))
            session.compress("a stretch of logs is read", target_percent=10, force=True)
        return say(task.question)


def with_summaries(task: Task, number: int, model: Model) -> str:
    """The last answer where the model's own summary stands for what has left."""
    messages: list[Json] = []

    def say(text: str) -> str:
        messages.append({"role": "user", "content": text})
        answer = model.ask({"messages": messages})
        messages.append({"role": "assistant", "content": answer})
        return answer

    say(task.opening)
    for stretch in range(STRETCHES):
        for part in range(LOGS):
            say(log(number, stretch, part))
        summary = say(SUMMARIZE)
        messages[:] = [
            {"role": "user", "content": f"What was done so far:\n{summary}"},
            {"role": "assistant", "content": "I go on with it."},
        ]
    return say(task.question)


WAYS: dict[str, Callable[[Task, int, Model], str]] = {
    "mcp-compaction": with_us,
    "own summaries": with_summaries,
}


def main() -> None:
    """Run every task both ways, and print the table."""
    parser = argparse.ArgumentParser(description="long tasks, with us and without")
    parser.add_argument("--model", default="claude-haiku-5-5")
    parser.add_argument("--upstream", default="https://api.anthropic.com")
    parser.add_argument("--tasks", type=int, default=4)
    parser.add_argument("--price", type=float, nargs=2, default=(0.10, 0.50))
    asked = parser.parse_args()
    key = os.environ.get("ANTHROPIC_API_KEY")
    if not key:
        raise SystemExit("set ANTHROPIC_API_KEY: the model is really asked, and that costs money")
    print(f"{asked.tasks} tasks, {STRETCHES} compactions each, {asked.model} at {asked.upstream}")
    for name, way in WAYS.items():
        model = Model(asked.upstream, key, asked.model)
        solved = values = 0
        for number in range(asked.tasks):
            task = make_task(number)
            answer = way(task, number, model)
            right = sum(one in answer for one in task.answers)
            values += right
            solved += right == len(task.answers)
        cost = (model.read * asked.price[0] + model.written * asked.price[1]) / 1e6
        print(
            f"{name:16} solved {solved} of {asked.tasks}   values {values} of "
            f"{4 * asked.tasks}   read {model.read:,}   written {model.written:,}   ${cost:.4f}"
        )


if __name__ == "__main__":
    main()
