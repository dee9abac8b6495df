"""What our gateway and our module in Claude Code have sent for a growing session, beside
CliffCompaction in the same run.

    pip install cliffcompaction
    python benchmarks/beside_cliff.py [--sessions FILE.jsonl.gz] [--limit 6] [--generated 4]
        [--seed 7] [--spans 12]

Every session is sent as a host sends it: each request has the whole history, and each answer the
provider's count of it. All compact at the same size, two fifths of the session (four characters a
token). FILE has one session a line, `{"name": …, "messages": […]}` in the shape of the Messages
API; generated ones have planted rules, tasks, errors and the like, `--spans` pieces of work each.

For each: the tokens of all requests, what they would cost with a provider's cache (the beginning
that a request shares with the one before it is read from there, the rest is written, at the prices
of Claude Opus 5.5 in tokens of fresh input: 0.05 and 1.25), and of what had been said, how much
stood in the request after the first and the second compaction.
In real sessions that is looked for which the next twenty messages use again.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import re
import sys
import tempfile
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from importlib import import_module
from importlib.util import find_spec
from itertools import dropwhile
from pathlib import Path
from typing import Any, NamedTuple, cast

sys.path.insert(0, str(Path(__file__).parents[1]))  # the other files of this folder

from benchmarks.gateway import HEADERS, TOOLS
from mcp_compaction import open_store
from mcp_compaction.api import OpenStore
from mcp_compaction.evals.corpora import Context, Probe, survives
from mcp_compaction.evals.scenarios import grow_session
from mcp_compaction.gateway.money import price_of
from mcp_compaction.gateway.running import RELEASE_PERCENT
from mcp_compaction.gateway.turns import CallTurn, CallTurns
from tests.server.claude_host import claude_talk

Json = dict[str, Any]
Send = Callable[[list[Json]], Awaitable[list[Json]]]

_PRICE = price_of("claude-opus-5-5")
READ, WRITTEN = _PRICE.cached / _PRICE.input, _PRICE.written / _PRICE.input
TRIGGER = 0.4  # of a session
LATER = 20  # messages that use again what was said
SPANS = 12  # of a generated session
_KINDS = {
    "path": re.compile(r"(?<![\w/.-])/?(?:[\w.-]+/)+[\w-]+\.\w{1,6}\b"),
    "identifier": re.compile(r"\b(?:[a-z]+_[a-z_]{3,}|[a-z]+[A-Z]\w{4,}|[A-Z][a-z]+[A-Z]\w{3,})\b"),
    "error": re.compile(r"\b\w*(?:Error|Exception): [^\n\\\"]{8,60}"),
    "command": re.compile(r'"command": "([^"\\]{8,80})'),
}


class Talk(NamedTuple):
    """A session, and what is to be known of it after each of its messages."""

    name: str
    messages: list[Json]
    probes: dict[int, tuple[Probe, ...]]  # planted, by the number of messages so far


class Sent(NamedTuple):
    """What went out for the first `upto` messages of a session."""

    upto: int
    messages: list[Json]


class Tally(NamedTuple):
    """What one way did over some sessions."""

    tokens: list[float]
    cost: list[float]
    compactions: list[int]
    shares: dict[tuple[str, int], list[tuple[int, int]]]  # by kind and number of the compaction


def size_of(messages: Iterable[Json]) -> int:
    """The tokens of messages, four characters each."""
    return sum(len(json.dumps(one, ensure_ascii=False)) for one in messages) // 4


def generated(number: int, seed: int = 7, spans: int = SPANS) -> list[Talk]:
    """Sessions with planted truths."""
    talks: list[Talk] = []
    for work in range(number):
        messages: list[Json] = []
        probes: dict[int, tuple[Probe, ...]] = {}
        for span in grow_session(seed, work, spans, 2):
            messages += span.messages
            probes[len(messages)] = span.probes
        talks.append(Talk(f"generated {work + 1}", messages, probes))
    return talks


def read_sessions(path: Path, limit: int) -> list[Talk]:
    """The longest sessions of a file."""
    raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    found = [json.loads(line) for line in raw.splitlines()]
    talks = [Talk(one["name"], _from_the_first_words(one["messages"]), {}) for one in found]
    return sorted(talks, key=lambda one: size_of(one.messages), reverse=True)[:limit]


def _from_the_first_words(messages: Sequence[Json]) -> list[Json]:
    """A recording as a provider takes it: one that begins in the middle has an answer first."""
    return list(dropwhile(lambda one: not isinstance(one["content"], str), messages))


async def run_ours(talk: Talk, trigger: int) -> list[Sent]:
    """What our gateway sends."""
    wanted: Json = {"counter": "estimate", "agent_controlled": False, "wait_for_boundary": False}
    wanted |= {"release_percent": RELEASE_PERCENT, "reserve_tokens": 0}
    with tempfile.TemporaryDirectory() as home:
        async with open_store(
            home=home, project=home, window_tokens=round(trigger / 0.8), **wanted
        ) as store:

            async def open_it() -> OpenStore:
                return store

            turns = CallTurns(open_it, store.settings, patience=600.0)

            async def send(messages: list[Json]) -> list[Json]:
                raw = json.dumps({"model": "m", "tools": TOOLS, "messages": messages}).encode()
                turn = await turns.begin("/v1/messages", HEADERS, raw)
                assert isinstance(turn, CallTurn)
                sent: list[Json] = json.loads(turn.out.body)["messages"]
                answer = talk.messages[len(messages) : len(messages) + 1]
                turn.begin_answer(200, {"content-type": "application/json"})
                if answer and answer[0]["role"] == "assistant":
                    turn.hear(json.dumps(_as_answered(answer[0], sent)).encode())
                turn.end(is_whole=bool(answer))
                await turns.settle()
                return sent

            return await _send_all(talk, send)


def _as_answered(message: Json, sent: Sequence[Json]) -> Json:
    """An answer as a provider gives it, with the tokens that it has counted."""
    content = message["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    usage = {"input_tokens": size_of([*sent, *TOOLS]), "output_tokens": size_of([message])}
    return {"type": "message", "role": "assistant", "content": blocks, "usage": usage}


async def run_mod(talk: Talk, trigger: int) -> list[Sent]:
    """What Claude Code sends that compacts at that size, where our module answers it."""
    wanted = {"counter": "estimate", "window_tokens": str(round(trigger / 0.8))}
    sent: list[Sent] = []
    with tempfile.TemporaryDirectory() as home:
        async with claude_talk(Path(home), wanted) as (_, host, place):
            host.own = size_of(TOOLS)
            for upto, message in enumerate(talk.messages, 1):
                host.hear(message)
                if message["role"] != "user":
                    continue
                if size_of([*host.request(), *TOOLS]) > trigger:
                    view = await host.compact(place, "auto", window_tokens=round(trigger / 0.8))
                    assert "rows" in view, view
                sent.append(Sent(upto, host.request()))
    return sent


async def run_cliff(talk: Talk, trigger: int) -> list[Sent]:
    """What CliffCompaction sends."""
    engine = import_module("cliffcompaction.engine")
    config = import_module("cliffcompaction.config").Config(threshold_tokens=trigger)
    dialect = import_module("cliffcompaction.dialects").detect("/v1/messages")
    cliff = engine.Engine(config)

    async def send(messages: list[Json]) -> list[Json]:
        asked = cliff.prepare({"model": "m", "tools": TOOLS, "messages": messages}, dialect)
        return asked.outgoing_body()["messages"]

    return await _send_all(talk, send)


async def _send_all(talk: Talk, send: Send) -> list[Sent]:
    numbered = enumerate(talk.messages, 1)
    ends = [upto for upto, message in numbered if message["role"] == "user"]
    return [Sent(upto, await send(talk.messages[:upto])) for upto in ends]


def take_stock(talk: Talk, sent: Sequence[Sent], tally: Tally) -> None:
    """Add what one way did with a session."""
    last: list[Json] = []
    seen: dict[int, Sent] = {}  # by the number of the compaction
    compactions, tokens, cost = 0, 0, 0.0
    for one in sent:
        shared = _count_shared(last, one.messages)
        if shared < len(last) - 1:  # a host adds to its last message
            compactions += 1
        if compactions:
            seen.setdefault(compactions, one)
        tokens += size_of(one.messages)
        cost += READ * size_of(one.messages[:shared]) + WRITTEN * size_of(one.messages[shared:])
        last = one.messages
    tally.tokens.append(tokens)
    tally.cost.append(cost)
    tally.compactions.append(compactions)
    for number in (1, 2):
        if number in seen:
            for kind, found in _shares_of(talk, seen[number]).items():
                tally.shares[kind, number].append(found)


def _count_shared(one: Sequence[Json], two: Sequence[Json]) -> int:
    pairs = enumerate(zip(one, two, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(one), len(two)))


def _shares_of(talk: Talk, sent: Sent) -> dict[str, tuple[int, int]]:
    """Of what had been said, how much is in a request, by kind."""
    shares: dict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
    if talk.probes:
        context = Context(tuple(text for one in sent.messages for text in _texts_in(one)))
        known = max((upto for upto in talk.probes if upto <= sent.upto), default=None)
        for probe in talk.probes[known] if known is not None else ():
            of, kept = shares[probe.kind]
            shares[probe.kind] = (of + 1, kept + survives(probe, context))
        return shares
    before, after = talk.messages[: sent.upto], talk.messages[sent.upto :][:LATER]
    said = json.dumps(before, ensure_ascii=False)
    needed = json.dumps(after, ensure_ascii=False)
    shown = json.dumps(sent.messages, ensure_ascii=False)
    for kind, pattern in _KINDS.items():
        wanted = {one for one in pattern.findall(needed) if one in said}
        shares[f"{kind}, used again"] = (len(wanted), sum(one in shown for one in wanted))
        if kind in ("error", "command"):
            had = set(pattern.findall(said))
            shares[kind] = (len(had), sum(one in shown for one in had))
    return shares


def _texts_in(value: Any) -> Iterable[str]:
    match value:
        case str():
            yield from value.split("\n")
        case dict():
            yield from _texts_in([*cast("Json", value).values()])
        case list():
            for one in cast("list[Any]", value):
                yield from _texts_in(one)
        case _:
            pass


async def compare(talks: Sequence[Talk], title: str) -> None:
    """Run all ways over some sessions, and print what they did."""
    ways = {"gateway": run_ours, "module": run_mod}
    if find_spec("cliffcompaction") is not None:
        ways["cliff"] = run_cliff
    tallies = {name: Tally([], [], [], defaultdict(list)) for name in ways}
    whole = Tally([], [], [], defaultdict(list))
    for talk in talks:
        trigger = max(500, round(TRIGGER * size_of(talk.messages)))
        for name, run in ways.items():
            take_stock(talk, await run(talk, trigger), tallies[name])
        numbered = enumerate(talk.messages, 1)
        ends = [upto for upto, one in numbered if one["role"] == "user"]
        take_stock(talk, [Sent(upto, talk.messages[:upto]) for upto in ends], whole)
    print(f"{title}: {len(talks)} sessions")
    print(f"{'':28}{'all of it':>14}" + "".join(f"{name:>14}" for name in ways))
    for label, of in (("tokens sent", "tokens"), ("cost with a cache", "cost")):
        figures = [sum(getattr(one, of)) for one in (whole, *tallies.values())]
        print(f"{label:28}" + "".join(f"{round(figure):>14,}" for figure in figures))
    counts = [sum(one.compactions) for one in tallies.values()]
    print(f"{'compactions':28}{'':14}" + "".join(f"{count:>14}" for count in counts))
    for kind, number in sorted({key for one in tallies.values() for key in one.shares}):
        shares = [_share(one.shares.get((kind, number), [])) for one in tallies.values()]
        label = f"{kind}, after {number}"
        print(f"{label:28}{'':14}" + "".join(f"{share:>14}" for share in shares))


def _share(found: Sequence[tuple[int, int]]) -> str:
    of, kept = sum(one for one, _ in found), sum(two for _, two in found)
    return f"{kept / of:.2f} of {of}" if of else "-"


async def run(given: argparse.Namespace) -> None:
    """Compare on what was asked for."""
    if find_spec("cliffcompaction") is None:
        print("cliffcompaction is not installed: only ours is measured", file=sys.stderr)
    if given.generated:
        talks = generated(given.generated, given.seed, given.spans)
        await compare(talks, "generated")
    if given.sessions is not None:
        await compare(read_sessions(given.sessions, given.limit), "recorded")


def main(arguments: Sequence[str] | None = None) -> None:
    """Read what to compare on, and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=Path, metavar="FILE")
    parser.add_argument("--limit", type=int, default=6, help="sessions of the file, the longest")
    parser.add_argument("--generated", type=int, default=4, help="generated sessions")
    parser.add_argument("--seed", type=int, default=7, help="of the generated sessions")
    parser.add_argument("--spans", type=int, default=SPANS, help="pieces of work in each of them")
    asyncio.run(run(parser.parse_args(arguments)))


if __name__ == "__main__":
    main()
