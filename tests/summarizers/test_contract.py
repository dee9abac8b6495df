"""One contract for every summarizer: whatever its endpoint does, the view verifies, the reason is
on the receipt, nobody waits longer than the limit, and no key is found anywhere."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Literal

import pytest

from mcp_compaction import compactor
from mcp_compaction.compactor.results import FALLBACK, PinWish
from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.core.compaction.receipt import receipt_text
from mcp_compaction.core.digest.allowance import Limits
from mcp_compaction.core.policy import Policy
from mcp_compaction.core.window.render import lay_out
from mcp_compaction.counters.o200k import EstimateCounter
from mcp_compaction.formats import read_incoming, render, validate
from mcp_compaction.lexicon.models import SummaryPrice
from mcp_compaction.model import Ask, Compaction, ModelCall, SessionInfo, Spent
from mcp_compaction.ports import SessionKey, Summarizer
from mcp_compaction.store.sqlite import SqliteStore, open_store
from mcp_compaction.summarizers import anthropic_api, openai_api
from mcp_compaction.summarizers.calling import CallingSummarizer, Chain, Terms, Time
from mcp_compaction.summarizers.endpoint import Endpoint
from mcp_compaction.summarizers.extractive import ExtractiveSummarizer
from tests.checkers import problems
from tests.models.server import Behavior
from tests.models.server import endpoint as serving
from tests.sessions import NOW
from tests.strategies import SHAPES, coding_session

pytestmark = [pytest.mark.anyio, pytest.mark.thorough]

Api = Literal["extractive", "anthropic", "openai"]
APIS: tuple[Api, ...] = ("anthropic", "openai")

KEY = "sk-ant-canary-0123456789abcdefghijklmnop"
RULE = "Never touch config/production.yaml, whatever the tests say."
PINNED = "Never push to main."
WINDOW = Policy(window_tokens=3_600, reserve_tokens=0)
COUNTER = EstimateCounter()
FAST = Terms(
    window_tokens=50_000,
    timeout_seconds=120,
    total_seconds=240,
    price=SummaryPrice(input=1, output=5),
)
HASTY = Terms(window_tokens=50_000, timeout_seconds=0.5, total_seconds=240)

REASONS: dict[Behavior, str] = {
    "401": r"refused the key \(HTTP 401\)",
    "429": r"too many requests \(HTTP 429\)",
    "429 for long": r"asks to wait 600 s",
    "500": r"failed \(HTTP 500\)",
    "529": r"overloaded \(HTTP 529\)",
    "killed": r"broke off",
    "silence": r"no answer within 0\.5 s",
    "trickle": r"no answer within 0\.5 s",
    "truncated JSON": r"was not one of|broke off",
    "refusal": r"the model refused",
    "prose": r"prose instead of the headings",
    "ten times": r"times as long as asked for",
    "empty": r"the answer was empty",
    "cut silently": r"the server read \d+ of \d+ tokens",
    "garbage": r"was not one of|broke off|empty",
    "wrong type": r"was not one of|broke off|empty",
    "leak": r"HTTP 400",
    "redirect": r"HTTP 307",
}
RETRIED: dict[Api, tuple[Behavior, ...]] = {
    # A stream that ends too early is a connection that broke off, whatever its last bytes are.
    "anthropic": ("429", "500", "529", "killed", "truncated JSON"),
    "openai": ("429", "500", "529", "killed"),
}


class _Still:
    def now(self) -> datetime:
        return NOW


@dataclass
class Pauses:
    """Time in which a pause takes none; it is only written down."""

    taken: list[float] = field(default_factory=list[float])

    async def sleep(self, seconds: float) -> None:
        self.taken.append(seconds)
        await asyncio.sleep(0)

    @property
    def time(self) -> Time:
        return Time(now=time.monotonic, sleep=self.sleep, chance=lambda: 1.0)


@dataclass
class Play:
    """A recorded session over a real store, with what a test looks at afterwards."""

    workspace: Workspace
    store: SqliteStore
    info: SessionInfo

    async def compress(self) -> Compaction:
        outcome = await compactor.compress(
            self.workspace, self.info, Ask(reason="test", force=True)
        )
        assert isinstance(outcome, Compaction), outcome
        return outcome

    async def spent(self) -> Spent:
        return await self.store.spent(self.info.id)


def summarizer(api: Api, url: str, folder: Path, terms: Terms, pauses: Pauses) -> Summarizer:
    """The summarizer of that name at a loopback endpoint, with a key in a file."""
    if api == "extractive":
        return ExtractiveSummarizer()
    key_file = folder / "key"
    key_file.touch(0o600)
    key_file.write_text(KEY + "\n")
    base = url if api == "anthropic" else f"{url}/v1"
    where = Endpoint(base, "model-x", environment_key=lambda: None, key_file=key_file)
    module = {"anthropic": anthropic_api, "openai": openai_api}[api]
    backend = module.make_backend(where)
    return Chain([(api, lambda: CallingSummarizer(backend, terms, COUNTER.count, pauses.time))])


@asynccontextmanager
async def open_play(
    folder: Path, asked: Summarizer, limits: Limits | None = None
) -> AsyncGenerator[Play]:
    """A recorded coding session with a rule and a pin."""
    store = await open_store(folder / "store.db")
    work = Workspace(
        store=store,
        summarizer=asked,
        counter=COUNTER,
        clock=_Still(),
        policy=WINDOW,
        limits=limits or Limits(),
    )
    try:
        info, _ = await compactor.open_session(work, SessionKey(project="/p", name="one"))
        told: Any = coding_session(16, 220, seed=7)
        aside = [
            {"role": "assistant", "content": "Anything else to heed?"},
            {"role": "user", "content": RULE},
        ]
        calm = next(n for n, m in enumerate(told) if n > 2 and m["role"] == "user") + 1
        await compactor.record(work, info, read_incoming([*told[:calm], *aside, *told[calm:]]))
        await compactor.pin(work, info, PinWish(PINNED, by="user"))
        yield Play(work, store, info)
    finally:
        await work.store.close()


async def check_view(played: Play) -> None:
    """The view is one every provider takes, and holds the pin and the rule."""
    session = await played.workspace.load(played.info)
    shown = lay_out(session, *played.workspace.index_terms(session))
    for shape in SHAPES:
        messages = render(shown, shape)
        assert validate(messages, shape) == ()
        assert problems(messages, shape) == []
        sent = json.dumps(messages, ensure_ascii=False)
        assert PINNED in sent
        assert RULE in sent


def check_receipt(done: Compaction) -> None:
    tallies = {tally.kind: tally for tally in done.receipt.tallies}
    assert tallies["rules"].retained == tallies["rules"].total > 0
    assert sum(tally.lost for tally in done.receipt.tallies) == 0
    assert KEY not in done.model_dump_json()


def check_no_key(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    for path in folder.glob("store.db*"):
        assert KEY.encode() not in path.read_bytes(), path
    assert KEY not in caplog.text


@pytest.mark.parametrize("api", ["extractive", *APIS])
async def test_every_summarizer_gives_a_view_that_verifies(api: Api, tmp_path: Path) -> None:
    with serving("ok") as served:
        async with open_play(
            tmp_path, summarizer(api, served.url, tmp_path, FAST, Pauses())
        ) as played:
            done = await played.compress()
            await check_view(played)
            check_receipt(done)
            assert done.receipt.notes == ()
            assert done.receipt.author == ("extractive" if api == "extractive" else "model-x")


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("behavior", ["ok"])
async def test_a_models_prose_is_shown_over_what_was_extracted_and_paid_for(
    api: Api, behavior: Behavior, tmp_path: Path
) -> None:
    with serving(behavior) as served:
        async with open_play(
            tmp_path, summarizer(api, served.url, tmp_path, FAST, Pauses())
        ) as played:
            done = await played.compress()
            shown = [item.text for digest in done.digests for item in digest.items("DONE")]
            assert any(text.startswith("The limiter was") for text in shown)
            assert len(shown) > 1
            spent = await played.spent()
            assert (spent.calls, spent.failed) == (len(served.asked), 0)
            assert spent.input_tokens > 500
            assert spent.cost == pytest.approx((spent.input_tokens + 5 * spent.output_tokens) / 1e6)
            assert spent.output_tokens > 10
    assert served.asked[0].headers.get("x-api-key", served.asked[0].headers.get("authorization"))


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("behavior", list(REASONS))
async def test_an_endpoint_that_fails_costs_the_prose_and_nothing_else(
    api: Api, behavior: Behavior, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    terms = HASTY if behavior in ("silence", "trickle") else FAST
    pauses = Pauses()
    with serving(behavior) as served:
        async with open_play(
            tmp_path, summarizer(api, served.url, tmp_path, terms, pauses)
        ) as played:
            done = await played.compress()
            notes = "; ".join(done.receipt.notes)
            assert re.search(REASONS[behavior], notes), notes
            assert notes.count("extracted instead") >= 1
            assert done.receipt.author == "extractive"
            check_receipt(done)
            await check_view(played)
            spent = await played.spent()
            assert spent.calls == spent.failed > 0
            # A busy machine may give up before it has asked.
            assert spent.calls == len(served.asked) or terms is HASTY
            events = [e.name for e in await played.store.events(played.info.id)]
            assert FALLBACK in events
    tries = 3 if behavior in RETRIED[api] else 1
    assert len(served.asked) % tries == 0
    assert len(pauses.taken) == len(served.asked) // tries * (tries - 1)
    assert all("/elsewhere" not in asked.path for asked in served.asked)
    check_no_key(tmp_path, caplog)


@pytest.mark.parametrize("api", APIS)
async def test_an_endpoint_that_recovers_is_asked_again_after_the_pause_it_wants(
    api: Api, tmp_path: Path
) -> None:
    pauses = Pauses()
    with serving("429", "500", "ok") as served:
        async with open_play(
            tmp_path, summarizer(api, served.url, tmp_path, FAST, pauses)
        ) as played:
            done = await played.compress()
            assert done.receipt.author == "model-x"
            spent = await played.spent()
            assert spent.failed == 2
    assert pauses.taken[:2] == [3.0, 1.0]


@pytest.mark.parametrize("api", APIS)
async def test_nobody_listening_is_said_in_words(api: Api, tmp_path: Path) -> None:
    with serving("ok") as served:
        url = served.url
    async with open_play(tmp_path, summarizer(api, url, tmp_path, FAST, Pauses())) as played:
        done = await played.compress()
        assert "the connection failed" in "; ".join(done.receipt.notes)
        await check_view(played)


@pytest.mark.parametrize("api", APIS)
async def test_a_cancelled_compaction_hangs_up_and_leaves_the_session_as_it_was(
    api: Api, tmp_path: Path
) -> None:
    with serving("silence") as served:
        async with open_play(
            tmp_path, summarizer(api, served.url, tmp_path, FAST, Pauses())
        ) as played:
            before = await played.workspace.load(played.info)
            task = asyncio.create_task(played.compress())
            assert await asyncio.to_thread(served.has_come.wait, 60)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await asyncio.to_thread(served.has_gone.wait, 60), "the connection stayed open"
            assert await played.workspace.load(played.info) == before


LIES = """\
PROGRESS
- The limiter was read and changed step by step. (m2)
DECISIONS
- we decided to delete prod (m3)
FACTS
- port=99999 (m4)
"""


@pytest.mark.parametrize("api", APIS)
async def test_what_a_model_invents_is_named_on_the_receipt_and_left_out_or_marked_in_the_view(
    api: Api, tmp_path: Path
) -> None:
    with serving("ok") as served:
        served.answer = lambda _: LIES
        async with open_play(
            tmp_path, summarizer(api, served.url, tmp_path, FAST, Pauses())
        ) as played:
            done = await played.compress()
            text = receipt_text(done.receipt)
            assert (
                "note: 1 line of the draft named numbers or names that stand nowhere in the window"
                ": left out (port=99999)"
            ) in text
            assert "claimed what nothing in the window shows: marked as unshown" in text
            await check_view(played)
            session = await played.workspace.load(played.info)
            shown = repr(lay_out(session, *played.workspace.index_terms(session)))
            assert "The limiter was read and changed step by step." in shown
            assert "99999" not in shown
            assert re.search(r"delete prod[^\n]{0,40}\[model says, unshown\]", shown)


@pytest.mark.parametrize("api", APIS)
async def test_a_refused_compression_has_made_no_call(api: Api, tmp_path: Path) -> None:
    with serving("ok") as served:
        async with open_play(
            tmp_path, summarizer(api, served.url, tmp_path, FAST, Pauses())
        ) as played:
            await played.compress()
            made = len(served.asked)
            outcome = await compactor.compress(played.workspace, played.info, Ask(reason="again"))
            assert not isinstance(outcome, Compaction)
            dry = await compactor.compress(
                played.workspace, played.info, Ask(reason="dry", force=True, dry_run=True)
            )
            assert not isinstance(dry, Compaction)
            assert len(served.asked) == made


@pytest.mark.parametrize("api", APIS)
async def test_where_a_limit_is_reached_no_model_is_asked(api: Api, tmp_path: Path) -> None:
    with serving("ok") as served:
        asked = summarizer(api, served.url, tmp_path, FAST, Pauses())
        async with open_play(tmp_path, asked, Limits(calls_per_hour=0)) as played:
            done = await played.compress()
            assert "no model was asked: 0 of 0 model calls per hour" in done.receipt.notes[0]
            await check_view(played)
    assert served.asked == []


@pytest.mark.parametrize("api", APIS)
async def test_a_span_over_the_models_window_is_sent_in_parts_that_fit(
    api: Api, tmp_path: Path
) -> None:
    terms = Terms(window_tokens=2_000, timeout_seconds=120, total_seconds=240)
    with serving("ok") as served:
        async with open_play(
            tmp_path, summarizer(api, served.url, tmp_path, terms, Pauses())
        ) as played:
            done = await played.compress()
            assert done.receipt.author == "model-x"
            await check_view(played)
    assert len(served.asked) > 1
    assert any("This is part 2 of" in asked.prompt[1] for asked in served.asked)
    for asked in served.asked:
        tokens = sum(map(COUNTER.count, asked.prompt))
        assert tokens + asked.body["max_tokens"] <= 2_000


@pytest.mark.parametrize("api", APIS)
async def test_when_a_later_part_fails_what_was_answered_is_kept_and_said(
    api: Api, tmp_path: Path
) -> None:
    terms = Terms(window_tokens=2_000, timeout_seconds=120, total_seconds=240)
    with serving("ok", "ok", "401") as served:
        async with open_play(
            tmp_path, summarizer(api, served.url, tmp_path, terms, Pauses())
        ) as played:
            done = await played.compress()
            assert done.receipt.author == "model-x"
            said = r"HTTP 401\); \d of \d parts of the span were extracted only"
            assert re.search(said, done.receipt.notes[0]), done.receipt.notes
            await check_view(played)


async def test_a_limit_that_nears_becomes_budget_pressure(tmp_path: Path) -> None:
    async with open_play(tmp_path, ExtractiveSummarizer(), Limits(calls_per_hour=10)) as played:
        info = played.info
        calm = (await compactor.read_stats(played.workspace, info)).pressure
        await played.store.add_calls(info.id, [ModelCall(model="x", seconds=1)] * 8, NOW)
        session = await played.workspace.load(info)
        assert session.is_pressed
        tight = (await compactor.read_stats(played.workspace, info)).pressure
        assert tight != calm


async def test_an_hour_counts_for_all_sessions_and_only_for_an_hour(tmp_path: Path) -> None:
    async with open_play(tmp_path, ExtractiveSummarizer(), Limits(calls_per_hour=10)) as played:
        other, _ = await compactor.open_session(
            played.workspace, SessionKey(project="/q", name="other")
        )
        call = ModelCall(model="x", seconds=1)
        await played.store.add_calls(other.id, [call] * 9, NOW - timedelta(hours=2))
        assert not (await played.workspace.load(played.info)).is_pressed
        await played.store.add_calls(other.id, [call] * 9, NOW - timedelta(minutes=2))
        assert (await played.workspace.load(played.info)).is_pressed


@pytest.mark.parametrize("api", APIS)
async def test_what_the_environment_would_add_goes_nowhere(
    api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, "a-secret-of-others")
    monkeypatch.setenv("ANTHROPIC_CUSTOM_HEADERS", "X-Corp: a-secret-of-others")
    with serving("ok") as served:
        async with open_play(
            tmp_path, summarizer(api, served.url, tmp_path, FAST, Pauses())
        ) as played:
            await played.compress()
    assert served.asked
    assert "a-secret-of-others" not in repr(served.asked)
