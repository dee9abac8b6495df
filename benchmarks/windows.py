"""Sessions of a given size in tokens: a coding session, many joined into one, many short messages.

Each is generated from a fixed seed; joined ones can be read from a file instead.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterable, Iterator
from itertools import cycle
from pathlib import Path
from random import Random
from typing import Any

from mcp_compaction.core.log.content import text_of
from mcp_compaction.formats import read, read_incoming
from tests.strategies import coding_session

Json = dict[str, Any]

_WORDS = (
    *("retry", "limit", "queue", "worker", "index", "cache", "schema", "token", "upload"),
    *("invoice", "ledger", "report", "tenant", "webhook", "digest", "audit", "export", "import"),
    *("parser", "router", "session", "billing", "search", "mailer", "planner"),
)
_RULES = (
    "Never push to main without a review.",
    "Only use the staging key here.",
    "Always run the whole suite before you commit.",
)
_STEPS_OF_A_CODING_SESSION = 900  # of about 400 tokens


def coding() -> Iterator[Json]:
    """One request followed by tool steps, again and again."""
    for seed in range(1_000):
        yield from coding_session(_STEPS_OF_A_CODING_SESSION, 400, seed=seed)


def joined() -> Iterator[Json]:
    """Session after session, each with its own files, ids, commands, errors and tasks."""
    random = Random(11)
    for number in range(100_000):
        yield from _session(random, number)


def short() -> Iterator[Json]:
    """Questions and answers of a line, each with identifiers of its own."""
    random = Random(5)
    for number in range(10_000_000):
        word = random.choice(_WORDS)
        if number % 2:
            commit = f"{random.randrange(16**8):08x}"
            said = f"It is in {word}_{number}, since commit {commit}; timeout_ms={number * 7}."
            yield {"role": "assistant", "content": said}
        else:
            said = f"Look at src/{word}/mod_{number}.py: why does {random.choice(_WORDS)} fail?"
            yield {"role": "user", "content": said}


GENERATED: dict[str, Callable[[], Iterator[Json]]] = {
    "coding": coding,
    "joined": joined,
    "short": short,
}


def read_sessions(path: Path) -> list[Json]:
    """The messages of all sessions of a file: JSON lines, plain or gzip, with a `messages` list."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as lines:
        return [message for line in lines for message in json.loads(line)["messages"]]


def endless(messages: Iterable[Json]) -> Iterator[Json]:
    """The messages over and over."""
    return cycle(messages)


def texts_of(messages: Iterable[Json]) -> list[str]:
    """What a counter counts of some messages, part by part."""
    parts = (p for m in read_incoming(list(messages)).messages for p in read(m.shape, m.raw)[1])
    return [text_of(part) for part in parts]


def window_of(messages: Iterator[Json], tokens: int, count: Callable[[str], int]) -> list[Json]:
    """The first messages that take so many tokens."""
    window: list[Json] = []
    total = 0
    for message in messages:
        window.append(message)
        total += sum(count(text) for text in texts_of([message]))
        if total >= tokens:
            return window
    raise SystemExit(f"there are only {total:,} tokens; pass a larger file or smaller --sizes.")


def _session(random: Random, number: int) -> Iterator[Json]:
    """A request, a handful of steps, and what came of them."""
    topic = random.choice(_WORDS)
    request = f"Fix the {topic} of ticket PROJ-{number + 100}. {random.choice(_RULES)}"
    yield {"role": "user", "content": f"{request} Don't forget to update docs/{topic}_{number}.md."}
    for step in range(random.randrange(4, 14)):
        yield from _step(
            random, f"{number}_{step}", f"src/{topic}/{random.choice(_WORDS)}_{number}"
        )
    done = f"We decided to keep the {topic} in src/{topic}/core_{number}.py because it is simpler."
    figures = f"{random.randrange(90)} passed, latency_ms={random.randrange(5_000)}."
    yield {"role": "assistant", "content": f"{done} I updated docs/{topic}_{number}.md. {figures}"}


def _step(random: Random, number: str, stem: str) -> Iterator[Json]:
    kind = random.choice(("Read", "Read", "Edit", "Bash", "Bash", "Grep"))
    path, call = f"{stem}_{number}.py", f"toolu_{number}"
    arguments: Json = {"file_path": path}
    if kind == "Bash":
        arguments = {"command": f"pytest -q tests/test_{number}.py -k {random.choice(_WORDS)}"}
    elif kind == "Grep":
        arguments = {"pattern": random.choice(_WORDS), "path": path.rpartition("/")[0]}
    said = f"I will check {path} first, since {random.choice(_WORDS)} may depend on it."
    use = {"type": "tool_use", "id": call, "name": kind, "input": arguments}
    yield {"role": "assistant", "content": [{"type": "text", "text": said}, use]}
    result = {"type": "tool_result", "tool_use_id": call, "content": _output(random, kind, path)}
    yield {"role": "user", "content": [result]}


def _output(random: Random, kind: str, path: str) -> str:
    if kind == "Edit":
        return f"The file {path} was updated."
    lines = [_line(random, kind, path, n) for n in range(random.randrange(5, 40))]
    if kind == "Bash":
        failed = random.choice((0, 0, 1))
        lines += [f"ValueError: bad {random.choice(_WORDS)} {random.randrange(16**6):06x}"] * failed
        lines.append(f"{failed} failed, {random.randrange(200)} passed\nexit code {failed}")
    return "\n".join(lines)


def _line(random: Random, kind: str, path: str, number: int) -> str:
    one, other = random.choice(_WORDS), random.choice(_WORDS)
    if kind == "Grep":
        return f"{path}:{number}: {one} = {other}({random.randrange(1_000)})"
    if kind == "Bash":
        return f"{one}: {other} took {random.randrange(900)} ms, id {random.randrange(16**8):08x}"
    return f"    {one}_{number} = {other}.get({random.randrange(100)})  # {one} of {other}"
