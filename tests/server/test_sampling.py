"""The host's model as a summarizer, in both protocol eras: asked once, believed never."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp.types import (
    CreateMessageRequestParams,
    CreateMessageResult,
    ErrorData,
    ImageContent,
    TextContent,
)

from mcp_compaction.server.app import build_server
from mcp_compaction.settings import load_settings
from tests.models.server import DIGEST, EXCUSE, PROSE
from tests.server.talking import ERAS, SMALL, Era, Talk
from tests.strategies import coding_session

pytestmark = pytest.mark.anyio

both_eras = pytest.mark.parametrize("era", ERAS)
RULE = "Never touch config/production.yaml, whatever the tests say."
LONG = coding_session(40, 300)
Answer = CreateMessageResult | ErrorData


class Host:
    """A client's model that answers as it was told to, and remembers what it was asked."""

    def __init__(self, *answers: str | Answer | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[CreateMessageRequestParams] = []
        self.meanwhile: Callable[[], Awaitable[None]] | None = None

    async def __call__(self, context: Any, params: CreateMessageRequestParams) -> Answer:
        self.asked.append(params)
        if self.meanwhile is not None:
            await self.meanwhile()
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return said(answer) if isinstance(answer, str) else answer


def said(text: str) -> CreateMessageResult:
    content = TextContent(type="text", text=text)
    return CreateMessageResult(role="assistant", model="host-model", content=content)


@asynccontextmanager
async def talk_with_sampling(
    folder: Path, host: Host | None, era: Era, **update: Any
) -> AsyncGenerator[Talk]:
    """A talk about a session that is worth compressing."""
    named = {"MCP_COMPACTION_SUMMARIZER": "sampling"}
    settings = load_settings({**SMALL, **named, "MCP_COMPACTION_HOME": str(folder / "store")})
    settings = settings.model_copy(update=update)
    server = build_server(settings, "/p", {})
    async with Client(server, mode=era, sampling_callback=host) as client:
        chat = Talk(client)
        rule = {"role": "user", "content": RULE}
        messages = [*LONG[:1], rule, *LONG[1:39]]
        await chat.say("record_messages", messages=messages, session="loop")
        yield chat


async def compress(chat: Talk) -> str:
    return await chat.say("compress_context", reason="done", session="loop", force=True)


async def check_rule(chat: Talk) -> None:
    assert RULE in await chat.read("loop/context")


@both_eras
async def test_the_hosts_model_writes_the_prose_and_is_asked_once(tmp_path: Path, era: Era) -> None:
    host = Host(DIGEST)
    async with talk_with_sampling(tmp_path, host, era) as chat:
        receipt = await compress(chat)
        assert "note:" not in receipt
        digests = await chat.read("loop/digests")
        assert "The limiter was read and changed step by step" in digests
        stats = await chat.say("context_stats", session="loop")
        assert re.search(r"\nsystem: 1 model call, [\d.k]+ tokens in, \d+ out, ", stats)
        await check_rule(chat)
    (asked,) = host.asked
    assert "SPAN" in str(asked.messages)
    assert asked.system_prompt is not None
    assert asked.include_context == "none"


@pytest.mark.thorough
@both_eras
@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (EXCUSE, "prose instead of the headings"),
        (PROSE, "prose instead of the headings"),
        ("", "the answer was empty"),
        ("\x00\x01}{" * 50, "the answer was empty"),
        (
            CreateMessageResult(
                role="assistant",
                model="host-model",
                content=ImageContent(type="image", data="", mime_type="image/png"),
            ),
            "the answer was empty",
        ),
    ],
    ids=["a refusal", "prose", "nothing", "garbage", "an image"],
)
async def test_what_is_no_digest_costs_the_prose_and_nothing_else(
    tmp_path: Path, era: Era, answer: str | CreateMessageResult, reason: str
) -> None:
    async with talk_with_sampling(tmp_path, Host(answer), era) as chat:
        receipt = await compress(chat)
        assert re.search(rf"note: sampling: [a-z ]*{reason}[a-z ]*; extracted instead", receipt)
        stats = await chat.say("context_stats", session="loop")
        assert "system: 1 model call (1 failed)" in stats
        assert re.search(rf"\nlast fall: sampling: [a-z ]*{reason}", stats)
        await check_rule(chat)


@both_eras
async def test_a_host_without_sampling_is_not_asked_and_the_receipt_says_so(
    tmp_path: Path, era: Era
) -> None:
    async with talk_with_sampling(tmp_path, None, era) as chat:
        receipt = await compress(chat)
        assert "note: sampling: this host offers no sampling; extracted instead" in receipt
        assert "system: " not in await chat.say("context_stats", session="loop")
        await check_rule(chat)


@both_eras
async def test_sampling_is_used_only_where_the_settings_name_it(tmp_path: Path, era: Era) -> None:
    host = Host(DIGEST)
    async with talk_with_sampling(tmp_path, host, era, summarizer="auto") as chat:
        assert "note:" not in await compress(chat)
    assert host.asked == []


def refusals() -> list[ErrorData | Exception]:
    return [ErrorData(code=-1, message="User rejected sampling request"), ValueError("a bug")]


@pytest.mark.parametrize("answer", refusals(), ids=["refused", "raised"])
async def test_a_legacy_host_that_gives_no_answer_costs_the_prose_only(
    tmp_path: Path, answer: ErrorData | Exception
) -> None:
    async with talk_with_sampling(tmp_path, Host(answer), "legacy") as chat:
        receipt = await compress(chat)
        assert "note: sampling: the host did not let its model answer; extracted" in receipt
        assert "a bug" not in receipt
        await check_rule(chat)


async def test_a_legacy_host_that_is_silent_is_waited_for_no_longer_than_the_limit(
    tmp_path: Path,
) -> None:
    host = Host(DIGEST)
    host.meanwhile = asyncio.Event().wait  # pyright: ignore[reportAttributeAccessIssue]
    async with talk_with_sampling(tmp_path, host, "legacy", summarizer_timeout_seconds=0.2) as chat:
        receipt = await compress(chat)
        assert "note: sampling: no answer within 0.2 s; extracted instead" in receipt


@pytest.mark.parametrize("answer", refusals(), ids=["refused", "raised"])
async def test_a_modern_host_that_refuses_does_not_come_back_and_nothing_is_changed(
    tmp_path: Path, answer: ErrorData | Exception
) -> None:
    async with talk_with_sampling(tmp_path, Host(answer), "auto") as chat:
        before = await chat.read("loop/context")
        with pytest.raises((MCPError, ExceptionGroup)):
            await compress(chat)
        assert await chat.read("loop/context") == before


@both_eras
async def test_what_was_said_meanwhile_joins_the_tail(tmp_path: Path, era: Era) -> None:
    host = Host(DIGEST)
    async with talk_with_sampling(tmp_path, host, era) as chat:

        async def meanwhile() -> None:
            host.meanwhile = None
            more = [{"role": "user", "content": "And keep the old name of the class."}]
            await chat.say("record_messages", messages=more, session="loop")

        host.meanwhile = meanwhile
        receipt = await compress(chat)
        assert "c1 done" in receipt
        assert "And keep the old name of the class." in await chat.read("loop/context")
        await check_rule(chat)
    assert 1 <= len(host.asked) <= 3


async def test_a_session_that_keeps_changing_is_asked_for_a_few_times_only(tmp_path: Path) -> None:
    host = Host(DIGEST)
    async with talk_with_sampling(tmp_path, host, "auto") as chat:
        said_so_far = 39

        async def meanwhile() -> None:
            nonlocal said_so_far
            more = LONG[said_so_far : said_so_far + 8]
            said_so_far += 8
            await chat.say("record_messages", messages=more, session="loop")

        host.meanwhile = meanwhile
        receipt = await compress(chat)
        assert "note: sampling: the host's model was asked for another span; extracted" in receipt
        await check_rule(chat)
    assert len(host.asked) == 3


@both_eras
async def test_a_limit_on_calls_holds_for_the_hosts_model_too(tmp_path: Path, era: Era) -> None:
    host = Host(DIGEST)
    async with talk_with_sampling(tmp_path, host, era, summarizer_max_calls_per_session=0) as chat:
        assert "note: no model was asked: 0 of 0 model calls per session" in await compress(chat)
    assert host.asked == []


@both_eras
async def test_a_span_that_does_not_fit_at_once_is_not_sampled(tmp_path: Path, era: Era) -> None:
    host = Host(DIGEST)
    async with talk_with_sampling(tmp_path, host, era, summarizer_window_tokens=1_500) as chat:
        receipt = await compress(chat)
        assert "note: sampling: the span does not fit into 1500 tokens at once" in receipt
    assert host.asked == []


@both_eras
@pytest.mark.parametrize(
    "arguments",
    [{"dry_run": True}, {"strategy": "archive"}, {"digest": "PROGRESS\n- the limiter is mended"}],
    ids=str,
)
async def test_where_no_model_is_needed_the_host_is_not_asked(
    tmp_path: Path, era: Era, arguments: dict[str, Any]
) -> None:
    host = Host(DIGEST)
    async with talk_with_sampling(tmp_path, host, era) as chat:
        await chat.say("compress_context", reason="x", session="loop", force=True, **arguments)
    assert host.asked == []


@both_eras
async def test_what_the_hosts_model_found_is_offered_as_a_fact_and_what_it_invented_is_not(
    tmp_path: Path, era: Era
) -> None:
    told = "FACTS\n- {} (m6)\n- The limiter lives in lib/nowhere.py. (m4)\n"
    found = "src/api/part3.py sets retries for each tenant_id"
    async with talk_with_sampling(tmp_path, Host(told.format(found)), era) as chat:
        receipt = await compress(chat)
        assert f'fact for later sessions? m6: "{found}" [model says]' in receipt
        assert "lib/nowhere.py" not in await chat.say("context_stats", session="loop")
