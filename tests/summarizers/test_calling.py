"""What every model call is held to: the fuse, the pauses, the window, the price, the accounts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import anyio
import pytest

from mcp_compaction.core.digest.prompt import Prompt
from mcp_compaction.core.tokens import estimate
from mcp_compaction.errors import SummarizerError
from mcp_compaction.lexicon.models import SummaryPrice
from mcp_compaction.model import Draft, SummaryRequest
from mcp_compaction.summarizers.calling import (
    CallFailed,
    CallingSummarizer,
    ModelAnswer,
    Terms,
    Time,
    failure_of_status,
)
from tests.core.saying import user
from tests.sessions import messages_of

pytestmark = pytest.mark.anyio

WIDE = Terms(window_tokens=50_000)
SAID = ModelAnswer(text="PROGRESS\n- it was built")


@dataclass
class World:
    """A backend and a clock that do as they are told; time passes only in pauses."""

    reply: Callable[[Prompt], Awaitable[ModelAnswer]]
    name: str = "fake"
    model: str = "gpt-4o"
    now: float = 1_000.0
    asked: list[Prompt] = field(default_factory=list[Prompt])
    pauses: list[float] = field(default_factory=list[float])

    def load(self) -> None:
        """Nothing to import."""

    async def ask(self, prompt: Prompt) -> ModelAnswer:
        self.asked.append(prompt)
        return await self.reply(prompt)

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)

    def summarizer(self, terms: Terms = WIDE) -> CallingSummarizer:
        clock = Time(now=lambda: self.now, sleep=self.sleep, chance=lambda: 0.0)
        return CallingSummarizer(self, terms, estimate, clock)


def says(answer: ModelAnswer) -> Callable[[Prompt], Awaitable[ModelAnswer]]:
    async def reply(_: Prompt) -> ModelAnswer:
        await asyncio.sleep(0)
        return answer

    return reply


def fails(error: CallFailed) -> Callable[[Prompt], Awaitable[ModelAnswer]]:
    async def reply(_: Prompt) -> ModelAnswer:
        await asyncio.sleep(0)
        raise CallFailed(error.reason, may_retry=error.may_retry, wait=error.wait)

    return reply


def request(words: int = 300, calls_left: int | None = None) -> SummaryRequest:
    said = messages_of([user(f"{n} " + "word " * 50) for n in range(words // 50)])
    return SummaryRequest(
        first=1, last=len(said), messages=said, max_tokens=200, calls_left=calls_left
    )


async def drafted(summarizer: CallingSummarizer, asked: SummaryRequest | None = None) -> Draft:
    return await summarizer.summarize(asked or request())


async def refused(
    summarizer: CallingSummarizer, asked: SummaryRequest | None = None
) -> SummarizerError:
    with pytest.raises(SummarizerError) as caught:
        await drafted(summarizer, asked)
    return caught.value


async def test_after_three_failures_it_is_not_asked_for_a_minute_and_then_again() -> None:
    world = World(fails(CallFailed("it is down")))
    summarizer = world.summarizer()
    for _ in range(3):
        assert str(await refused(summarizer)) == "it is down"
    error = await refused(summarizer)
    assert str(error) == (
        "not asked: it failed 3 times in a row (it is down); it is tried again in 60 s"
    )
    assert error.calls == ()
    assert len(world.asked) == 3
    world.now += 61
    world.reply = says(SAID)
    assert (await drafted(summarizer)).author == "gpt-4o"
    world.reply = fails(CallFailed("down again"))
    assert str(await refused(summarizer)) == "down again"


async def test_pauses_grow_and_a_short_wish_to_wait_is_honored() -> None:
    world = World(fails(CallFailed("busy", may_retry=True)))
    assert len((await refused(world.summarizer())).calls) == 3
    assert world.pauses == [0.25, 0.5]
    world = World(fails(failure_of_status(429, "5")))
    await refused(world.summarizer())
    assert world.pauses == [5.0, 5.0]


async def test_a_span_that_needs_more_calls_than_are_left_makes_none() -> None:
    world = World(says(SAID))
    error = await refused(
        world.summarizer(Terms(window_tokens=1_400)), request(3_000, calls_left=2)
    )
    assert "calls, 2 are left" in str(error)
    assert world.asked == []


async def test_the_whole_summary_has_its_own_limit_in_time() -> None:
    async def never(_: Prompt) -> ModelAnswer:
        await anyio.sleep_forever()
        raise AssertionError

    world = World(never)
    error = await refused(world.summarizer(Terms(window_tokens=50_000, total_seconds=0.05)))
    assert str(error) == "not done within 0.05 s"
    assert [call.failed for call in error.calls] == ["given up"]


async def test_what_the_server_says_it_read_must_be_what_was_sent() -> None:
    world = World(says(SAID))
    sent = await drafted(world.summarizer()) and world.asked[0].tokens
    for read, is_whole in ((int(0.95 * sent), True), (int(0.85 * sent), False), (0, True)):
        world.reply = says(SAID.model_copy(update={"input_tokens": read}))
        if is_whole:
            assert (await drafted(world.summarizer())).sections
        else:
            assert f"the server read {read} of {sent} tokens" in str(
                await refused(world.summarizer())
            )


async def test_other_scripts_may_be_packed_tighter_by_other_vocabularies() -> None:
    said = messages_of([user("限流器的修改以及测试的结果。" * 200)])
    asked = SummaryRequest(first=1, last=1, messages=said, max_tokens=200)
    world = World(says(SAID))
    await drafted(world.summarizer(), asked)
    read = int(0.75 * world.asked[0].tokens)
    world.reply = says(SAID.model_copy(update={"input_tokens": read}))
    assert (await drafted(world.summarizer(), asked)).sections


async def test_a_call_is_priced_by_its_tokens_and_a_failed_one_too() -> None:
    price = SummaryPrice(input=2, output=10, cached=0.5)
    world = World(
        says(
            ModelAnswer(
                text="no", input_tokens=900_000, cached_tokens=100_000, output_tokens=50_000
            )
        )
    )
    error = await refused(world.summarizer(Terms(window_tokens=50_000, price=price)))
    assert error.calls[0].cost == pytest.approx(0.8 * 2 + 0.1 * 0.5 + 0.05 * 10)
    assert SummaryPrice(input=2, output=0).cost_of(10, 10, 0) == pytest.approx(2e-5)
    assert (await refused(world.summarizer())).calls[0].cost is None


async def test_a_key_in_a_reason_is_masked() -> None:
    key = "sk-ant-api03-0123456789abcdefghijklmnop"
    error = await refused(World(fails(CallFailed(f"bad key {key}"))).summarizer())
    assert key not in str(error)
    assert key not in error.calls[0].failed


async def test_calls_whose_caller_went_away_are_accounted_with_the_next_and_blow_the_fuse() -> None:
    callers: list[anyio.CancelScope] = []

    async def never(_: Prompt) -> ModelAnswer:
        callers[-1].cancel()
        await anyio.sleep_forever()
        raise AssertionError

    world = World(never)
    summarizer = world.summarizer()

    async def leave() -> None:
        with anyio.CancelScope() as caller:
            callers.append(caller)
            await summarizer.summarize(request())

    for _ in range(2):
        await leave()
    world.reply = says(SAID)
    draft = await drafted(summarizer)
    assert [call.failed for call in draft.calls] == ["given up", "given up", ""]
    world.reply = never
    for _ in range(3):
        await leave()
    assert "its caller did not wait" in str(await refused(summarizer))


async def test_a_summary_stops_before_a_call_that_could_cost_more_than_is_left() -> None:
    world = World(says(SAID.model_copy(update={"input_tokens": 2_400, "output_tokens": 100})))
    terms = Terms(window_tokens=2_600, price=SummaryPrice(input=1_000, output=1_000))
    asked = request(words=6_000).model_copy(update={"cost_left": 6.0})
    draft = await drafted(world.summarizer(terms), asked)
    assert "more than is left of the limit" in draft.note
    assert 0 < sum(call.cost or 0.0 for call in draft.calls) <= 6.0
    nothing = asked.model_copy(update={"cost_left": 0.01})
    before = len(world.asked)
    assert "more than is left" in str(await refused(world.summarizer(terms), nothing))
    assert len(world.asked) == before


@pytest.mark.parametrize("name", ["extractive", "agent", "archive"])
async def test_no_model_is_taken_for_what_it_is_called(name: str) -> None:
    world = World(says(SAID), model=name)
    assert (await drafted(world.summarizer())).author == f"model {name}"


async def test_a_call_without_an_answer_is_accounted_by_what_was_sent() -> None:
    async def never(_: Prompt) -> ModelAnswer:
        await anyio.sleep_forever()
        raise AssertionError

    world = World(never)
    error = await refused(world.summarizer(Terms(window_tokens=50_000, timeout_seconds=0.01)))
    assert error.calls[0].input_tokens == world.asked[0].tokens
