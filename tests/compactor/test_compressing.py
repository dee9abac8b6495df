"""Compressing on a real store: what comes of a compaction, done, failed or refused."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import pytest

from mcp_compaction import compactor
from mcp_compaction.compactor.results import FAILED
from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.errors import NothingRecorded, SummarizerError
from mcp_compaction.formats import read_incoming
from mcp_compaction.model import Ask, Compaction, Draft, Failed, SessionInfo, SummaryRequest, Traits
from mcp_compaction.summarizers.extractive import ExtractiveSummarizer
from tests.compactor.small_session import assistant, open_session, record_long, user

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


async def test_a_window_that_is_not_ours_is_never_shrunk_unasked(tmp_path: Path) -> None:
    async with open_session(tmp_path) as (work, info):
        await work.store.set_traits(info.id, Traits(owns_window=False))
        await record_long(work, info)
        assert await compactor.relieve(work, info) is None
        assert await compactor.receipts(work, info) == ()


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
