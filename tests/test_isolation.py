"""No question asked in one project is ever answered with a row of another."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mcp_compaction import compactor
from mcp_compaction.compactor.results import PinWish
from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.core.policy import Policy
from mcp_compaction.core.recall.rank import rank
from mcp_compaction.counters.o200k import EstimateCounter
from mcp_compaction.errors import InputError
from mcp_compaction.formats import read_incoming
from mcp_compaction.model import Ask, Compaction, Hit, Pin, SearchQuery, SessionInfo, Worth
from mcp_compaction.ports import Scope, SessionKey, Store
from mcp_compaction.store import search
from mcp_compaction.store.sqlite import SqliteStore, open_store
from mcp_compaction.summarizers.extractive import ExtractiveSummarizer
from tests.compactor.small_session import StepClock
from tests.sessions import NOW

pytestmark = [pytest.mark.anyio, pytest.mark.thorough]

PROJECTS = 50
SEARCHING = frozenset({"words", "forged id", "store"})
KINDS = SEARCHING | {"refs", "names", "pins", "stats", "restore", "forget"}
_WORD = re.compile(r"xenon(\d\d)q")  # every text of a project carries its word

_ECHO = re.compile(
    r"no (?:session '[^']*'|ref or tool call \S+)|nowhere=\([^)]*\)"
)  # what was asked, said again


def word(project: int) -> str:
    """The word that only one project says."""
    return f"xenon{project:02}q"


def is_compressed(project: int) -> bool:
    """Whether a project's main session has lost some of its window."""
    return project % 5 == 0


def said(number: int, name: str) -> list[dict[str, Any]]:
    """The same talk in every project, but for the word."""
    own = word(number)
    length = 20 if is_compressed(number) and name == "main" else 2
    call = {"type": "tool_use", "id": f"toolu_{own}", "name": "Read", "input": {"path": own}}
    twin = {"type": "tool_use", "id": "toolu_twin", "name": "Bash", "input": {"command": own}}
    results = [
        {"type": "tool_result", "tool_use_id": use["id"], "content": f"port 8443 {own} {name}"}
        for use in (call, twin)
    ]
    return [
        {"role": "user", "content": f"Fix the login of {own}. Never touch the {own} key."},
        {"role": "assistant", "content": [call, twin]},
        {"role": "user", "content": results},
        *(
            {"role": "assistant", "content": f"Decision {n}: {own} stays on the login. " * length}
            for n in range(4)
        ),
        {"role": "user", "content": f"Go on with the login, {own}."},
    ]


class Home(NamedTuple):
    """A project: its number, its sessions and its own pins."""

    number: int
    sessions: tuple[SessionInfo, ...]
    pins: tuple[Pin, ...]

    @property
    def project(self) -> str:
        """Half of the projects lie within one another."""
        return path_of(self.number)


def path_of(number: int) -> str:
    """The folder of a project; some are the start of another's."""
    return f"/home/ann/shop{number // 2}" + ("/inner" if number % 2 else "")


async def settle(work: Workspace, number: int) -> Home:
    """A project with a session, a twin of it, a subagent's and one that was only digested."""
    sessions: list[SessionInfo] = []
    pins: list[Pin] = []
    for name, parent in (("main", None), (f"of-{word(number)}", None), ("sub", "main")):
        above = next((s.id for s in sessions if s.name == parent), None)
        key = SessionKey(project=path_of(number), name=name, agent=parent or "", parent=above)
        info, _ = await compactor.open_session(work, key)
        await compactor.record(work, info, read_incoming(said(number, name)))
        sessions.append(await compactor.find_session(work, info.project, name))
    digested, _ = await compactor.open_session(
        work, SessionKey(project=path_of(number), name="digested")
    )
    digest = f"DECISIONS\n- {word(number)} keeps the login\nOPEN\n- close {word(number)}"
    await compactor.compress(work, digested, Ask(reason="x", digest=digest))
    if is_compressed(number):
        done = await compactor.compress(work, sessions[0], Ask(reason="x", force=True))
        assert isinstance(done, Compaction)
    for scope in ("session", "project"):
        text = f"Keep the {scope} login of {word(number)}."
        pins.append(
            (await compactor.pin(work, sessions[0], PinWish(text, by="user", scope=scope))).pin
        )
    if number == 7:  # the one thing that is for every project
        await compactor.pin(
            work, sessions[0], PinWish("Be kind to the login.", by="user", scope="global")
        )
    return Home(number, (*sessions, digested), tuple(pins))


Probe = Callable[[], Awaitable[object]]
Asked = tuple[str, Probe]


def probes(work: Workspace, store: SqliteStore, mine: Home, theirs: Home) -> Iterator[Asked]:
    """Every kind of question about another project's things, asked from one's own."""
    own = mine.sessions[theirs.number % len(mine.sessions)]
    foreign = theirs.sessions[mine.number % len(theirs.sessions)]
    secret = word(theirs.number)
    forged = own.model_copy(update={"id": foreign.id})
    outside = Scope(project=mine.project, session=foreign.id)
    pin = theirs.pins[mine.number % 2]
    skip = theirs.number % 7

    async def found(name: str) -> object:
        info = await compactor.find_session(work, mine.project, name)
        return info, await compactor.context(work, info), await compactor.receipts(work, info)

    yield "words", lambda: compactor.recall(work, own, secret)
    yield (
        "words",
        lambda: compactor.recall(work, own, f"login port {secret}", scope="project", skip=skip),
    )
    yield (
        "words",
        lambda: compactor.recall(work, own, "login port key", scope="project", max_tokens=400),
    )
    yield (
        "words",
        lambda: compactor.recall(work, own, f"{secret[:6]}* OR role:user login", skip=skip),
    )
    yield "forged id", lambda: compactor.recall(work, forged, secret)
    yield "forged id", lambda: compactor.recall_refs(work, forged, "m1..m3")
    yield "forged id", lambda: work.pins(forged)
    yield "forged id", lambda: compactor.unpin(work, forged, pin.ref, by="user")
    yield "refs", lambda: compactor.recall_refs(work, own, f"toolu_{secret}")
    yield "refs", lambda: compactor.recall_refs(work, own, "toolu_twin")
    yield "refs", lambda: compactor.recall_refs(work, own, f"m1..m9, {pin.ref}")
    yield "refs", lambda: compactor.recall_refs(work, own, pin.ref)
    yield "refs", lambda: compactor.recall_refs(work, own, f"m{1 + skip}~9 d1")
    yield "refs", lambda: compactor.originals(work, own, f"m{foreign.id}")
    yield "names", lambda: found(foreign.name)
    yield "names", lambda: found(f"of-{secret}")
    yield "names", lambda: found(secret[:8])
    yield "names", lambda: found(str(foreign.id))
    yield "names", lambda: compactor.find_session(work, f"{mine.project}/", foreign.name)
    yield "names", lambda: compactor.list_sessions(work, mine.project)
    yield "pins", lambda: compactor.unpin(work, own, pin.ref, by="user")
    yield "pins", lambda: compactor.pin(work, own, PinWish("x", by="user", supersedes=pin.ref))
    yield "pins", lambda: work.pins(own)
    yield "pins", lambda: work.project_pins(mine.project)
    yield "pins", lambda: store.release_pin(outside, pin.number, NOW)
    yield "stats", lambda: compactor.brief(work, own)
    yield "stats", lambda: work.store.digests(own.id)
    if mine.number == theirs.number % 10:
        yield "stats", lambda: compactor.read_stats(work, own)
    yield "restore", lambda: compactor.restore(work, own, f"c{1 + foreign.id}")
    yield "restore", lambda: compactor.page_in(work, own, f"toolu_{secret}")
    yield "forget", lambda: compactor.forget(work, outside)
    yield "forget", lambda: compactor.forget(work, outside, "m1")
    yield "forget", lambda: compactor.twins(work, forged, "m1", Scope(project=mine.project))
    yield "forget", lambda: compactor.twins(work, own, "m1", Scope(project=mine.project))
    yield "store", lambda: store.originals(outside, (1, 2, 3))
    yield "store", lambda: store.messages_of_calls(outside, (f"toolu_{secret}", "toolu_twin"))
    yield "store", lambda: store.search_many(outside, [SearchQuery(terms=(secret,))], 5)
    yield "store", lambda: store.find(outside, SearchQuery(terms=("login", secret)))
    yield "store", lambda: everything(store, Scope(project=mine.project), ("login", secret))


async def everything(store: Store, scope: Scope, terms: tuple[str, ...]) -> tuple[Hit, ...]:
    """All that a scope may read, whatever rows it asks for."""
    query = SearchQuery(terms=terms)
    found = await store.find(scope, query)
    rows = [Worth(1.0, None, row=row) for row in range(1, 40)]
    numbers = [Worth(1.0, session, number=1) for session in range(1, 40)]
    return await store.read(scope, query, [*rank(found), *rows, *numbers])


async def answer(probe: Probe) -> str:
    """All that a probe tells, also by the way it fails."""
    try:
        return _ECHO.sub("", repr(await probe()))
    except InputError as error:
        return _ECHO.sub("", str(error))


def rows(path: Path) -> str:
    """All rows but the notes of what was recalled."""
    connection = sqlite3.connect(path)
    try:
        return "\n".join(line for line in connection.iterdump() if '"event"' not in line)
    finally:
        connection.close()


@pytest.mark.parametrize("probes", [2_000, pytest.param(10_000, marks=pytest.mark.slow)])
async def test_no_probe_finds_a_row_of_another_project(probes: int, memory_path: Path) -> None:
    asked = await ask_of_all(memory_path / "store.db", KINDS, probes)
    assert asked.total() >= probes
    assert asked.keys() == KINDS


async def test_nor_does_a_search_that_tells_the_index_of_one_session_only(
    memory_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "MOST_MARKED", 1)
    asked = await ask_of_all(memory_path / "store.db", SEARCHING, 500)
    assert asked.total() >= 500
    assert asked.keys() == SEARCHING


async def ask_of_all(path: Path, kinds: frozenset[str], least: int) -> Counter[str]:
    """How often each kind of question was asked between the projects, to no avail."""
    asked: Counter[str] = Counter()
    store = await open_store(path)
    policy = Policy(window_tokens=4_000, preserve_recent_messages=1, digest_max_tokens=99)
    work = Workspace(store, ExtractiveSummarizer(), EstimateCounter(), StepClock(), policy)
    try:
        homes = [await settle(work, number) for number in range(PROJECTS)]
        before = rows(store.path)
        for step in range(1, PROJECTS):
            if asked.total() >= least:
                break
            batch = [
                (kind, mine, probe)
                for mine in homes
                for number, (kind, probe) in enumerate(
                    probes(work, store, mine, homes[(mine.number + step) % PROJECTS])
                )
                if (number + mine.number + step) % 8 == 0 and kind in kinds
            ]
            told = await asyncio.gather(*(answer(probe) for _, _, probe in batch))
            for (kind, mine, _), text in zip(batch, told, strict=True):
                assert set(_WORD.findall(text)) <= {f"{mine.number:02}"}, (kind, text)
                asked[kind] += 1
        assert rows(store.path) == before
        everywhere = await compactor.recall(
            work, homes[0].sessions[0], "login", scope="all", max_tokens=20_000
        )
        assert len(set(_WORD.findall(repr(everywhere)))) > 2  # only when that is asked for
    finally:
        await work.store.close()
    return asked
