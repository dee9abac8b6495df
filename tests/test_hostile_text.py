"""Text that somebody made to be slow: the time it takes grows as the text does, never faster."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from mcp_compaction import compactor
from mcp_compaction.compactor.results import PinWish
from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.core.account.telling import telling_part
from mcp_compaction.core.compaction.verify import find_lost
from mcp_compaction.core.excerpts.choose import NAME, NUMBER
from mcp_compaction.core.log.identifiers import Finding, error_lines, find_identifiers
from mcp_compaction.core.log.spoken_rules import whole_of
from mcp_compaction.core.policy import Policy
from mcp_compaction.core.text.injection import defuse
from mcp_compaction.core.text.sentences import split_sentences, spoken_sentences
from mcp_compaction.core.text.wholes import mask_passed_on, unify_lines
from mcp_compaction.core.text.words import exact_words, fold, telling_in_order
from mcp_compaction.counters.o200k import EstimateCounter
from mcp_compaction.errors import CompactionError
from mcp_compaction.formats import read_incoming
from mcp_compaction.model import Ask, SessionInfo
from mcp_compaction.ports import SessionKey
from mcp_compaction.store.sqlite import open_store
from mcp_compaction.summarizers.extractive import ExtractiveSummarizer
from mcp_compaction.wiring import SystemClock
from tests.checkers import Json

pytestmark = pytest.mark.anyio

Shape = Callable[[int], str]
TIMES, MOST_TIMES = 8, 16
LEAST = 0.05  # seconds: less of the smaller text is noise, and counts as so much


def repeat(unit: str) -> Shape:
    return lambda size: (unit * (size // len(unit) + 1))[:size]


def each(line: str, between: str = "\n") -> Shape:
    """Lines of which no two are alike."""
    return lambda size: between.join(
        line.format(n, Random(n).getrandbits(40)) for n in range(size // (len(line) + 4))
    )


UNITS = (
    *("a", "A", "1", " ", "\n", "\t\n", "\t", ".", ",", "-", "_", "/", "\\", "|", ">", "(", "{"),
    *("`", '"', "'", "+", "~", "@", "#", "不", "e\u0301", "\u200d", "a:", "a=", "a;", "a/", "a.b."),
    *("a_", "aB", "a-", "A1", "1.2.", "1,", "10.0.0.", "../", "C:\\a\\", "a@b.", "a\r\n", "a | "),
    *("word ", "not ", "never, ", "never do it. ", "may I? ", "if you must not ", "e.g. ", "1) a "),
    *("- [ ] a\n", "> never\n", "```\n", "```py\nx=1\n", "~~~\n```\n", "| a | b |\n", "+a\n-b\n"),
    *("<a ", "<a></a>", "<!--", "[m1] ", "m1..m9 ", "[pinned: rules]\n", "Human: never\n", "$("),
    *("KEY=val ", "password: ", '[{"a":', "these:\n", "here is the README:\n", "cd a && "),
    *("ERROR: failed\n", 'File "a.py", line 1\n', "done: fixed it. ", "I think maybe ", '\\"'),
    *("2026-11-17 ", "17. Nov. ", "we decided to use x, because ", "-----BEGIN PRIVATE KEY-----\n"),
)
SHAPES: dict[str, Shape] = {
    **{repr(unit): repeat(unit) for unit in UNITS},
    "deeply indented lines": lambda size: f"{' ' * 200}x\n" * (size // 202),
    "one indented line": lambda size: " " * size + "x",
    "paths": each("src/a{0}/b{0}.py"),
    "ids": each("id_{1:x}", " "),
    "hex": each("{1:x}", ""),
    "keys": each("key{0}={1}"),
    "rules": each("Never push to branch{0} at night.", " "),
    "addresses": each("https://x{0}.example/{0}", " "),
    "base64": lambda size: "".join(Random(size).choices("ABCDefgh0123+/", k=size)),
}
READERS: dict[str, Callable[[str], object]] = {
    "names and numbers": lambda text: (NAME.findall(text), NUMBER.findall(text)),
    "exact words": exact_words,
    "identifiers": find_identifiers,
    "error lines": lambda text: list(error_lines(text)),
    "what is passed on": lambda text: mask_passed_on(unify_lines(text)),
    "what a rule is a part of": lambda text: whole_of(f"never {text[:40]}", f"never {text}"),
    "sentences": lambda text: (spoken_sentences(text), split_sentences(text)),
    "words": lambda text: (fold(text), telling_in_order(text)),
    "what tells most": lambda text: telling_part(text, 120, frozenset(["word", "rules"])),
    "defused": defuse,
}


def seconds_of(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def is_too_slow(smaller: float, larger: float) -> bool:
    return larger > MOST_TIMES * max(smaller, LEAST)


@pytest.mark.thorough
@pytest.mark.parametrize("reader", READERS)
def test_eight_times_the_text_is_read_in_at_most_sixteen_times_the_time(reader: str) -> None:
    read = READERS[reader]
    slow: dict[str, tuple[float, float]] = {}
    for name, shape in SHAPES.items():
        small, large = shape(3_000), shape(24_000)
        took = seconds_of(lambda text=small: read(text)), seconds_of(lambda text=large: read(text))
        if is_too_slow(*took):
            slow[name] = took
    assert slow == {}


def test_thousands_of_paths_are_looked_for_among_thousands() -> None:
    def look(count: int) -> None:
        paths = tuple(Finding("file", f"src/a{n}/b{n}.py") for n in range(count))
        assert find_lost(paths, [(1,)] * count, {1: paths}) == ()
        assert find_lost(paths, [(2,)] * count, {2: paths[:1]}) == paths[1:]

    assert not is_too_slow(seconds_of(lambda: look(1_000)), seconds_of(lambda: look(8_000)))


def in_session(text: str, place: str) -> list[Json]:
    """A session in which a text is what a user, the agent or a tool says."""
    call = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "cat x"}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": text}
    said: dict[str, list[Json]] = {
        "user": [{"role": "user", "content": text}, {"role": "assistant", "content": "fine"}],
        "agent": [{"role": "user", "content": "go"}, {"role": "assistant", "content": text}],
        "tool": [
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": [call]},
            {"role": "user", "content": [result]},
            {"role": "assistant", "content": "read"},
        ],
    }
    begin: list[Json] = [
        {"role": "user", "content": "Fix it. Never push."},
        {"role": "assistant", "content": "ok"},
    ]
    steps: list[Json] = []
    for n in range(6):
        steps.append({"role": "user", "content": f"next {n}"})
        steps.append({"role": "assistant", "content": f"did {n}"})
    return [*begin, *said[place], *steps]


async def workspace_in(home: Path) -> Workspace:
    return Workspace(
        store=await open_store(home / "store.db"),
        summarizer=ExtractiveSummarizer(),
        counter=EstimateCounter(),
        clock=SystemClock(),
        policy=Policy(window_tokens=200_000),
    )


async def compact(home: Path, text: str, place: str) -> float:
    """The processor time in which such a session is recorded and compacted."""
    work = await workspace_in(home)
    try:
        name = str(time.monotonic_ns())
        info, _ = await compactor.open_session(work, SessionKey(project="/p", name=name))
        start = time.process_time()
        await compactor.record(work, info, read_incoming(in_session(text, place)))
        await compactor.compress(work, info, Ask(reason="x", force=True, target_percent=1.0))
        return time.process_time() - start
    finally:
        await work.store.close()


ONCE_SLOW = (  # they took the square of their length, or worse
    *(("tool", "'a:'"), ("tool", "paths"), ("user", r"'\t\n'"), ("user", "'never do it. '")),
    *(("user", "rules"), ("user", "deeply indented lines"), ("tool", "base64")),
)
OTHERS = [
    pytest.param(place, shape, marks=pytest.mark.slow)
    for shape in SHAPES
    for place in ("user", "agent", "tool")
    if (place, shape) not in ONCE_SLOW
]


@pytest.mark.thorough
@pytest.mark.parametrize(("place", "shape"), [*ONCE_SLOW, *OTHERS])
async def test_a_session_with_such_a_text_is_compacted_in_time(
    tmp_path: Path, place: str, shape: str
) -> None:
    await compact(tmp_path, "warm", place)
    smaller = await compact(tmp_path, SHAPES[shape](10_000), place)
    larger = await compact(tmp_path, SHAPES[shape](80_000), place)
    # A short message may stand whole, so that nothing is read in it: such a time
    # counts as a little more.
    assert larger <= MOST_TIMES * max(smaller, 0.15), (smaller, larger)


def _whole(text: str) -> Ask:
    return Ask(reason="x", force=True, target_percent=1.0, digest=text)


CALLS: dict[str, Callable[[Workspace, SessionInfo, str], Awaitable[object]]] = {
    "recorded": lambda c, info, text: compactor.record(
        c, info, read_incoming(in_session(text, "user"))
    ),
    "pinned": lambda c, info, text: compactor.pin(c, info, PinWish(text, by="agent")),
    "looked for": lambda c, info, text: compactor.recall(c, info, text, scope="session"),
    "given as a digest": lambda c, info, text: compactor.compress(c, info, _whole(text)),
    "compacted": lambda c, info, _: compactor.compress(c, info, Ask(reason="x", force=True)),
}


@pytest.mark.thorough
@pytest.mark.parametrize("what", CALLS)
async def test_a_long_text_is_read_outside_the_event_loop(tmp_path: Path, what: str) -> None:
    work, text = await workspace_in(tmp_path), repeat("a:")(300_000)
    try:
        info, _ = await compactor.open_session(work, SessionKey(project="/p", name="work"))
        said = in_session(text if what == "compacted" else "Fix it.", "tool")
        await compactor.record(work, info, read_incoming(said))
        loop, all_threads = time.thread_time(), time.process_time()
        with suppress(CompactionError):
            await CALLS[what](work, info, text)
        loop, all_threads = time.thread_time() - loop, time.process_time() - all_threads
        assert loop <= max(0.15, all_threads / 4), (loop, all_threads)
    finally:
        await work.store.close()


@pytest.mark.thorough
@pytest.mark.parametrize("what", ["1,", "word "])
async def test_others_are_answered_while_a_megabyte_is_recorded(tmp_path: Path, what: str) -> None:
    work, text = await workspace_in(tmp_path), repeat(what)(1_000_000)
    stretches: list[float] = []

    async def answer_others() -> None:
        while True:
            last = time.process_time()
            await asyncio.sleep(0.005)
            stretches.append(time.process_time() - last)

    try:
        info, _ = await compactor.open_session(work, SessionKey(project="/p", name="work"))
        others = asyncio.create_task(answer_others())
        await asyncio.sleep(0)
        await compactor.record(work, info, read_incoming(in_session(text, "tool")))
        others.cancel()
    finally:
        await work.store.close()
    assert max(stretches) <= max(0.3, sum(stretches) / 3), (max(stretches), sum(stretches))
