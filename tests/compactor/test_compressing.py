"""Compressing on a real store: what comes of a compaction, done, failed or refused."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from mcp_compaction import compactor
from mcp_compaction.compactor.events import COMPLETED, FAILED, SAFETY_NET
from mcp_compaction.compactor.results import PinWish
from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.core.policy import PRESETS
from mcp_compaction.errors import (
    InputError,
    NothingRecorded,
    PinRefused,
    SummarizerError,
    UnknownRef,
    UnknownSession,
)
from mcp_compaction.formats import read_incoming
from mcp_compaction.model import (
    Ask,
    Compaction,
    Draft,
    Failed,
    SessionInfo,
    SummaryRequest,
    Traits,
)
from mcp_compaction.ports import Scope
from mcp_compaction.summarizers.extractive import ExtractiveSummarizer
from tests.compactor.small_session import SMALL, assistant, open_session, record_long, user

pytestmark = pytest.mark.anyio


class Watched:
    """An extractive summarizer that remembers what it was shown."""

    name = "watched"

    def __init__(self) -> None:
        self.requests: list[SummaryRequest] = []

    async def summarize(self, request: SummaryRequest) -> Draft:
        self.requests.append(request)
        return await ExtractiveSummarizer().summarize(request)


class Broken:
    """A summarizer that fails as it was told to."""

    name = "broken"

    def __init__(self, error: BaseException) -> None:
        self.error = error

    async def summarize(self, request: SummaryRequest) -> Draft:
        raise self.error


@pytest.mark.parametrize(
    "error", [SummarizerError("quota exceeded"), TimeoutError(), ValueError("no JSON")]
)
async def test_a_failing_summarizer_costs_the_prose_and_nothing_else(
    tmp_path: Path, error: Exception
) -> None:
    async with open_session(tmp_path, summarizer=Broken(error)) as (work, info):
        await record_long(work, info)
        outcome = await compactor.compress(work, info, Ask(reason="test", target_percent=20))
        assert isinstance(outcome, Compaction)
        assert outcome.receipt.author == "extractive"
        assert "broken failed" in outcome.receipt.notes[0]


@pytest.mark.parametrize("error", [MemoryError(), RecursionError(), KeyboardInterrupt()])
async def test_what_must_not_be_swallowed_is_raised_and_changes_nothing(
    tmp_path: Path, error: BaseException
) -> None:
    async with open_session(tmp_path, summarizer=Broken(error)) as (work, info):
        await record_long(work, info)
        before = json.dumps(await compactor.context(work, info))
        with pytest.raises(type(error)):
            await compactor.compress(work, info, Ask(reason="test", target_percent=20))
        assert json.dumps(await compactor.context(work, info)) == before


async def test_an_unexpected_failure_is_an_answer_and_an_event_not_a_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def burst(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr("mcp_compaction.compactor.driving.flow", burst)
    async with open_session(tmp_path) as (work, info):
        await record_long(work, info)
        outcome = await compactor.compress(work, info, Ask(reason="test"))
        assert isinstance(outcome, Failed)
        assert "ZeroDivisionError" in outcome.text
        assert (outcome.reason, outcome.error) == ("error", "ZeroDivisionError")
        monkeypatch.undo()
        assert dict((await compactor.read_stats(work, info)).events) == {FAILED: 1}
        (logged,) = caplog.messages
        assert re.fullmatch(FAILED + r": work, iteration [1-9]\d*", logged)


async def test_a_compaction_and_the_net_are_logged_by_name_with_agent_and_iteration(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "mcp_compaction.compactor")
    async with open_session(tmp_path, name="researcher") as (work, info):
        await record_long(work, info)
        shown = (await work.load(info)).messages
        said = sum(message.role == "assistant" for message in shown)
        outcome = await compactor.relieve(work, info)
    assert isinstance(outcome, Compaction)
    before, after = outcome.receipt.before, outcome.receipt.after
    net, done = caplog.messages
    assert net.startswith(f"{SAFETY_NET}: researcher, iteration {said}: ")
    sizes = f"c1, {before:,} -> {after:,} tokens"
    assert done == f"{COMPLETED}: researcher, iteration {said}: {sizes}"


async def test_messages_said_while_a_compaction_runs_join_the_tail(tmp_path: Path) -> None:
    class Talking(Watched):
        async def summarize(self, request: SummaryRequest) -> Draft:
            await asyncio.shield(self.talk())
            return await super().summarize(request)

        async def talk(self) -> None:
            await compactor.record(
                self.workspace, self.info, read_incoming([user(f"one more, {len(self.requests)}")])
            )

        workspace: Workspace
        info: SessionInfo

    talking = Talking()
    async with open_session(tmp_path, summarizer=talking) as (work, info):
        talking.workspace, talking.info = work, info
        known = await record_long(work, info)
        outcome = await compactor.compress(work, info, Ask(reason="test", target_percent=20))
        assert isinstance(outcome, Compaction)
        session = await work.load(info)
        since = [message for message in session.messages if message.seq > known]
        assert [m.text for m in since] == [f"one more, {n}" for n in range(len(talking.requests))]
        assert since


async def test_two_compactions_at_once_leave_one_view_and_no_message_in_neither(
    tmp_path: Path,
) -> None:
    async with open_session(tmp_path) as (work, info):
        known = await record_long(work, info)
        both = await asyncio.gather(
            *(compactor.compress(work, info, Ask(reason=r, target_percent=25)) for r in ("a", "b"))
        )
        assert sum(isinstance(outcome, Compaction) for outcome in both) >= 1
        session = await work.load(info)
        whole = {m.seq for m in session.messages}
        spans = [(d.first, d.last) for d in session.digests]
        for seq in range(1, known + 1):
            covered = [span for span in spans if span[0] <= seq <= span[1]]
            assert (seq in whole) + len(covered) == 1


def bad_calls() -> dict[
    str, tuple[type[Exception], Callable[[Workspace, SessionInfo], Awaitable[Any]]]
]:
    """Requests that cannot be carried out, by what is wrong with them."""

    def ask(**fields: Any) -> Ask:
        known: dict[str, Any] = {"reason": "test", "target_percent": 20.0}
        return Ask(**{**known, **fields})

    return {
        "blank reason": (InputError, lambda c, i: compactor.compress(c, i, ask(reason=" "))),
        "target over 100": (
            InputError,
            lambda c, i: compactor.compress(c, i, ask(target_percent=120.0)),
        ),
        "blank digest": (InputError, lambda c, i: compactor.compress(c, i, ask(digest="  "))),
        "span beyond the end": (
            UnknownRef,
            lambda c, i: compactor.compress(c, i, ask(span=(1, 9_999))),
        ),
        "unknown compaction": (UnknownRef, lambda c, i: compactor.restore(c, i, "c9")),
        "no compaction at all": (InputError, lambda c, i: compactor.restore(c, i, "nine")),
        "unknown pin": (UnknownRef, lambda c, i: compactor.unpin(c, i, "p99", by="user")),
        "blank pin": (PinRefused, lambda c, i: compactor.pin(c, i, PinWish(" \n", by="user"))),
        "pin with NUL": (
            PinRefused,
            lambda c, i: compactor.pin(c, i, PinWish("a\x00b", by="user")),
        ),
        "pin with half a sign": (
            PinRefused,
            lambda c, i: compactor.pin(c, i, PinWish("a\ud83d", by="user")),
        ),
        "pin over budget": (
            PinRefused,
            lambda c, i: compactor.pin(c, i, PinWish("word " * 9_000, by="user")),
        ),
        "unknown message": (UnknownRef, lambda c, i: compactor.originals(c, i, "m9999")),
        "no ref": (InputError, lambda c, i: compactor.originals(c, i, "hello")),
        "query without a word": (InputError, lambda c, i: compactor.recall(c, i, '"" * ( )')),
        "unknown role": (InputError, lambda c, i: compactor.recall(c, i, "role:king hello")),
        "no date": (InputError, lambda c, i: compactor.recall(c, i, "since:whenever hello")),
        "unknown session": (UnknownSession, lambda c, i: compactor.find_session(c, "/p", "nobody")),
        "foreign project": (UnknownSession, lambda c, i: compactor.find_session(c, "/q", "work")),
        "recorded after nothing": (
            UnknownRef,
            lambda c, i: compactor.record(c, i, read_incoming([user("x")]), after="m9999"),
        ),
        "forget nothing": (
            UnknownRef,
            lambda c, i: compactor.forget(c, Scope(project="/p", session=i.id), "m9999"),
        ),
    }


@pytest.mark.parametrize("fault", bad_calls())
async def test_bad_input_gets_a_next_step_and_changes_nothing(tmp_path: Path, fault: str) -> None:
    expected, call = bad_calls()[fault]
    async with open_session(tmp_path) as (work, info):
        await record_long(work, info)
        before = [line async for line in compactor.export(work, info)]
        with pytest.raises(expected) as raised:
            await call(work, info)
        text = str(raised.value)
        assert any(mark in text for mark in (";", ":", ".")), text
        assert len(text) > 20
        after = [line async for line in compactor.export(work, info)]
        assert after[1:] == before[1:]
        assert json.loads(after[0])["view"] == json.loads(before[0])["view"]
        assert json.loads(after[0])["pins"] == json.loads(before[0])["pins"]


async def test_compressing_an_empty_session_asks_for_a_digest_and_then_keeps_it(
    tmp_path: Path,
) -> None:
    digest = "DECISIONS\n- use Postgres\nOPEN\n- write the migration"
    async with open_session(tmp_path) as (work, info):
        with pytest.raises(NothingRecorded, match="digest"):
            await compactor.compress(work, info, Ask(reason="done"))
        outcome = await compactor.compress(work, info, Ask(reason="done", digest=digest))
        assert isinstance(outcome, Compaction)
        assert not outcome.receipt.checked
        assert "use Postgres" in json.dumps(await compactor.context(work, info))


async def test_the_system_compacts_at_its_threshold_and_the_net_catches_the_agent(
    tmp_path: Path,
) -> None:
    system = PRESETS["ladder"].model_copy(update={"window_tokens": 6_000})
    for name, policy in (("system", system), ("agent", SMALL)):
        async with open_session(tmp_path / name, policy=policy) as (work, info):
            await compactor.record(work, info, read_incoming([user("hi"), assistant("hello")] * 3))
            assert await compactor.relieve(work, info) is None
            await record_long(work, info)
            outcome = await compactor.relieve(work, info)
            assert isinstance(outcome, Compaction)
            assert dict((await compactor.read_stats(work, info)).events)[COMPLETED] == 1


async def test_a_window_that_is_not_ours_is_never_shrunk_unasked(tmp_path: Path) -> None:
    async with open_session(tmp_path) as (work, info):
        await work.store.set_traits(info.id, Traits(owns_window=False))
        await record_long(work, info)
        assert await compactor.relieve(work, info) is None
        assert await compactor.receipts(work, info) == ()


async def test_a_forced_digest_is_kept_where_nothing_gives_way_to_it(tmp_path: Path) -> None:
    async with open_session(tmp_path) as (work, info):
        await compactor.record(
            work, info, read_incoming([user("Fix it."), assistant("Fixed.")] * 2)
        )
        ask = Ask(reason="x", force=True, digest="FACTS\n- the parser is in parser.py")
        outcome = await compactor.compress(work, info, ask)
        assert isinstance(outcome, Compaction)
        shown = json.dumps(await compactor.context(work, info))
        assert "the parser is in parser.py [agent says]" in shown
        (hit,) = (await compactor.recall(work, info, "parser")).hits
        assert hit.text == "FACTS: the parser is in parser.py [agent says]"
        assert shown.count("Fixed.") == 2


async def test_what_a_model_says_in_its_thinking_between_calls_counts_as_its_words(
    tmp_path: Path,
) -> None:
    words = "Decision: we use Postgres for the queue, since Redis loses jobs when it restarts."
    said = [
        {"type": "thinking", "thinking": words, "signature": "c2ln"},
        {"type": "tool_use", "id": "c1", "name": "Read", "input": {"path": "a.py"}},
    ]
    result = {"type": "tool_result", "tool_use_id": "c1", "content": "row\n" * 400}
    history = [user("Build the queue."), {"role": "assistant", "content": said}]
    history += [{"role": "user", "content": [result]}]
    for number in range(8):
        history += [assistant(f"Step {number} is done."), user(f"Go on with {number}.")]
    shown: dict[str, str] = {}
    for model in ("claude-opus-5-5", "claude-opus-5"):
        (tmp_path / model).mkdir()
        async with open_session(tmp_path / model) as (work, info):
            body = {"model": model, "messages": history}
            await compactor.record(work, info, read_incoming(body))
            asked = Ask(reason="test", force=True, target_percent=10)
            assert isinstance(await compactor.compress(work, info, asked), Compaction)
            shown[model] = json.dumps(await compactor.context(work, info, "anthropic"))
    assert "we use Postgres for the queue" in shown["claude-opus-5-5"]
    assert "we use Postgres for the queue" not in shown["claude-opus-5"]
