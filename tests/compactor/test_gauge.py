"""A call costs what is new: the fill is the full measure, and no call reads the whole window."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_compaction import compactor
from mcp_compaction.compactor import stats
from mcp_compaction.compactor.results import PinWish
from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.core.log.spoken_rules import saying_of
from mcp_compaction.core.policy import Policy
from mcp_compaction.core.window.fill import Fill
from mcp_compaction.counters.o200k import EstimateCounter
from mcp_compaction.errors import PinRefused
from mcp_compaction.formats import read_incoming
from mcp_compaction.model import Ask, Projection, SessionInfo
from mcp_compaction.ports import Scope, SessionKey, Store
from mcp_compaction.store.sqlite import SqliteStore, open_store
from mcp_compaction.summarizers.extractive import ExtractiveSummarizer
from mcp_compaction.wiring import SystemClock
from tests.strategies import coding_session

pytestmark = pytest.mark.anyio

POLICY = Policy(window_tokens=6_000)


def workspace_on(store: Store) -> Workspace:
    return Workspace(
        store=store,
        summarizer=ExtractiveSummarizer(),
        counter=EstimateCounter(),
        clock=SystemClock(),
        policy=POLICY,
    )


@asynccontextmanager
async def open_session() -> AsyncGenerator[tuple[SqliteStore, Workspace, SessionInfo]]:
    """A session in a store of its own."""
    with tempfile.TemporaryDirectory() as folder:
        store = await open_store(Path(folder) / "store.db")
        try:
            work = workspace_on(store)
            info, _ = await compactor.open_session(work, SessionKey(project="/p", name="work"))
            yield store, work, await compactor.own_window(work, info)
        finally:
            await store.close()


async def full_measure(work: Workspace, info: SessionInfo) -> Fill:
    full = work.fill_of(await work.load(info))
    assert sum(tokens for _, tokens in full.by_role) == dict(full.parts)["messages"]
    return full.model_copy(update={"by_role": ()})


# What may happen to a window between two looks at it.


async def say(work: Workspace, info: SessionInfo, number: int) -> None:
    said = list(coding_session(1 + number % 12, 400, seed=number))
    await compactor.record(work, info, read_incoming(said), after=await newest(work, info))


async def send_body(work: Workspace, info: SessionInfo, number: int) -> None:
    body = await compactor.context(work, info)
    body["system"] = "You are careful. " * number
    await compactor.record(work, info, read_incoming(body))


async def compress(work: Workspace, info: SessionInfo, number: int) -> None:
    if await newest(work, info) is not None:
        ask = Ask(reason="done", force=True, target_percent=10 + number)
        await compactor.compress(work, info, ask)


async def restore(work: Workspace, info: SessionInfo, number: int) -> None:
    receipts = await compactor.receipts(work, info)
    if receipts:
        await compactor.restore(work, info, receipts[number % len(receipts)].ref, force=True)


async def page_in(work: Workspace, info: SessionInfo, number: int) -> None:
    if ref := await any_ref(work, info, number):
        await compactor.page_in(work, info, ref)


async def forget(work: Workspace, info: SessionInfo, number: int) -> None:
    if ref := await any_ref(work, info, number):
        await compactor.forget(work, Scope(project="/p", session=info.id), ref)


async def pin(work: Workspace, info: SessionInfo, number: int) -> None:
    await compactor.pin(work, info, PinWish(f"Keep rule number {number}.", by="user"))


async def unpin(work: Workspace, info: SessionInfo, number: int) -> None:
    pins = await work.pins(info)
    if pins:
        await compactor.unpin(work, info, pins[number % len(pins)].ref, by="user")


async def change_model(work: Workspace, info: SessionInfo, number: int) -> None:
    model = ("gpt-5", "claude-opus-4-7", "claude-3")[number % 3]
    changed = {"model": model, "window_tokens": 5_000 + 100 * number, "owns_window": True}
    await work.store.set_traits(info.id, info.traits.model_copy(update=changed))


async def newest(work: Workspace, info: SessionInfo) -> str | None:
    (known,) = await compactor.list_sessions(work, "/p")
    return f"m{known.messages}" if known.messages else None


async def any_ref(work: Workspace, info: SessionInfo, number: int) -> str | None:
    (known,) = await compactor.list_sessions(work, "/p")
    return f"m{1 + number % known.messages}" if known.messages else None


CHANGES = (say, send_body, compress, restore, page_in, forget, pin, unpin, change_model)
changes = st.lists(
    st.tuples(st.sampled_from(CHANGES), st.integers(0, 40), st.booleans()), max_size=10
)


@pytest.mark.thorough
@settings(max_examples=25, deadline=None)
@given(changes)
async def test_the_cheap_fill_is_the_full_measure_whatever_happened_and_whoever_did_it(
    made: list[tuple[Any, int, bool]],
) -> None:
    async with open_session() as (store, work, info):
        other = workspace_on(store)
        await say(work, info, 30)
        await compress(work, info, 20)
        for change, number, is_by_other in made:
            await change(other if is_by_other else work, info, number)
            assert (await work.read_window(info)).fill == await full_measure(work, info)


async def calibrate(work: Workspace, info: SessionInfo) -> None:
    came = read_incoming([{"role": "assistant", "content": "Done."}])
    await compactor.record(work, info, came.model_copy(update={"reported": 900}))


async def relieve(work: Workspace, info: SessionInfo) -> None:
    assert await compactor.relieve(work, info) is None


async def pin_one(work: Workspace, info: SessionInfo) -> None:
    await compactor.pin(work, info, PinWish("Never push to main.", by="agent"))


async def look(work: Workspace, info: SessionInfo) -> None:
    assert (await work.read_window(info)).fill_shown is not None


@pytest.mark.parametrize("call", [calibrate, relieve, pin_one, look])
async def test_no_call_loads_the_session_for_what_it_says_of_the_window(
    call: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: object) -> None:
        raise AssertionError("the whole session was loaded")

    async with open_session() as (store, work, info):
        await compactor.record(work, info, read_incoming(list(coding_session(10, 100))))
        monkeypatch.setattr(store, "load", refuse)
        await call(work, info)


async def test_statistics_read_no_more_of_a_window_that_holds_twice_as_much(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stats, "_MOST_READ", 40)
    monkeypatch.setattr(stats, "_FIRST_READ", 10)
    read: list[int] = []
    for steps in (200, 400):
        async with open_session() as (_, work, info):
            said = [*coding_session(steps, 100), {"role": "user", "content": "And the rest?"}]
            await compactor.record(work, info, read_incoming(said))
            whole = await work.load(info)
            session, past, reading = await compactor.load_newest(work, info)
            found = await compactor.stats_of(work, session, past, reading)
            assert found.fill == (await work.read_window(info)).fill
            assert (found.shown, found.unread) == (
                len(whole.messages),
                len(whole.messages) - len(session.messages),
            )
            assert session.messages[:10] == whole.messages[:10]
            assert session.messages[-40:] == whole.messages[-40:]
            assert isinstance(found.would_free, Projection)
            assert any("Never push to main" in one.text for one in found.offer.candidates)
            read.append(len(session.messages))
    assert read[1] <= 1.1 * read[0] < 0.5 * len(whole.messages)


words = st.sampled_from(
    ["never", "push", "to", "main", "on", "Fridays", "v1.2", "“quoted”", "don't"]
)
sentences = st.one_of(
    st.lists(words, min_size=2, max_size=40).map(lambda said: " ".join(said) + "."),
    st.sampled_from(
        ["絶対に本番に触らない。", "金曜日はデプロイしない！", "- keep it small", "> pasted line"]
    ),
)
joints = st.sampled_from([" ", "\n", "\n\n", "\n- ", " \t"])


@st.composite
def requests_and_part(draw: st.DrawFn) -> tuple[list[str], str]:
    """Some requests, and a few sentences on end of one of them."""
    requests: list[str] = []
    parts: list[str] = []
    for _ in range(draw(st.integers(1, 4))):
        pieces = [(draw(sentences), draw(joints)) for _ in range(draw(st.integers(1, 14)))]
        requests.append("".join(sentence + joint for sentence, joint in pieces).strip())
        first = draw(st.integers(0, len(pieces) - 1))
        on_end = pieces[first : first + draw(st.integers(1, 3))]
        parts.append("".join(sentence + joint for sentence, joint in on_end).strip())
    return requests, draw(st.sampled_from(parts))


@settings(max_examples=30, deadline=None)
@given(requests_and_part())
async def test_whose_a_pin_is_does_not_depend_on_how_its_words_are_looked_for(
    drawn: tuple[list[str], str],
) -> None:
    requests, text = drawn
    async with open_session() as (_, work, info):
        await compactor.record(
            work, info, read_incoming([{"role": "user", "content": r} for r in requests])
        )
        read = saying_of(text, (await work.load(info)).messages)
        try:
            pinned = await compactor.pin(work, info, PinWish(text, by="agent", kind="note"))
        except PinRefused:
            return
        is_said = read is not None and read.how == "said"
        assert (pinned.pin.author == "user") is is_said
        assert (pinned.pin.source is None) is (read is None)
