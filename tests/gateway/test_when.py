"""When the gateway compacts by itself, and when it waits or changes nothing."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import httpx2
import pytest

from mcp_compaction import compactor
from mcp_compaction.api import OpenSession
from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.core.wording import kilo
from mcp_compaction.gateway import conversation, forwarding
from mcp_compaction.gateway.money import Price
from mcp_compaction.gateway.running import within_limit
from mcp_compaction.model import Failed, Outcome, SessionInfo
from mcp_compaction.settings import load_settings
from tests.gateway.talking import PATHS, TOOLS, WINDOW, Host, StrictProvider, open_talk, size_of
from tests.gateway.upstream import provide
from tests.hosts.live import PROGRAM

pytestmark = pytest.mark.anyio


async def _fill(host: Host, percent: int) -> None:
    """Work until the provider counts that many tokens of a hundred of the window."""
    number = 0
    while host.provider.requests == [] or size_of(host.last_sent) // 4 < percent * WINDOW // 100:
        await host.work(number, size=400)
        number += 1


@pytest.mark.parametrize("is_kept_long", [False, True])
async def test_a_cold_cache_is_a_moment_to_compact_below_the_trigger(
    tmp_path: Path, is_kept_long: bool
) -> None:
    async with open_talk(tmp_path, agent_controlled=False) as (host, _):
        await _fill(host, 66)
        assert host.turns.tally["compactions"] == 0
        host.turns.cache_seconds = (0.0, 3600.0)
        compacted = asyncio.Event()
        host.turns.on_change = compacted.set
        kept = {"ephemeral_1h_input_tokens": 500 if is_kept_long else 0}
        read = size_of(host.history) // 4
        usage = {"input_tokens": read - 500, "cache_creation_input_tokens": 500}
        host.provider.said.append({"text": "so", "usage": {**usage, "cache_creation": kept}})
        await host.say("And so?")
        if is_kept_long:
            for _ in range(50):
                await asyncio.sleep(0)
        else:
            while not host.turns.tally["compactions"]:  # it may be done before it is waited for
                compacted.clear()
                await compacted.wait()
        assert host.turns.tally["compactions"] == (0 if is_kept_long else 1)


async def _finish_a_task(host: Host, number: int) -> None:
    """Have the model run the tests, which pass: a boundary."""
    host.provider.said.append({"tool": "Bash", "input": {"command": "pytest -q"}})
    await host.say(f"Run the tests of part {number}.")
    call = host.history[-1]["content"][0]["id"]
    result = {"type": "tool_result", "tool_use_id": call, "content": f"{number + 9} passed in 1s"}
    host.history.append({"role": "user", "content": [result]})
    await host.go_on()


@pytest.mark.parametrize("does_pay", [True, False])
async def test_between_trigger_and_net_it_compacts_only_where_that_pays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, does_pay: bool
) -> None:
    price = Price(written=0.3 if does_pay else 125.0)

    def price_of(model: str) -> Price:
        return price

    monkeypatch.setattr(conversation, "price_of", price_of)
    limits: dict[str, Any] = {"fill_threshold_percent": 65, "release_percent": 30}
    async with open_talk(tmp_path, agent_controlled=False, **limits) as (host, _):
        await _fill(host, 66)
        for number in range(2):
            await _finish_a_task(host, number)
        assert host.turns.tally["compactions"] == (1 if does_pay else 0)


async def test_after_a_compaction_the_next_one_waits_unless_the_window_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_talk(tmp_path, agent_controlled=False) as (host, _):
        number = 0
        while not host.turns.tally["compactions"]:
            await host.work(number)
            number += 1
        asked: list[int] = []

        async def relieve(self: OpenSession) -> None:
            asked.append(len(host.provider.requests))

        monkeypatch.setattr(OpenSession, "relieve", relieve)
        for percent, is_asked in ((90, False), (90, False), (100, True), (90, True)):
            read = percent * WINDOW // 100
            host.provider.said.append({"text": "so", "usage": {"input_tokens": read}})
            await host.say("And?")
            assert (len(host.provider.requests) in asked) is is_asked, (percent, asked)


async def test_a_request_that_would_not_fit_waits_for_the_compaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = compactor.make

    async def wait(work: Workspace, info: SessionInfo) -> Outcome:
        await asyncio.sleep(0)
        assert len(host.provider.requests) == sent  # the request is held
        return await make(work, info)

    async with open_talk(tmp_path) as (host, _):
        await _fill(host, 60)
        host.turns.patience = 0.0
        monkeypatch.setattr(compactor, "make", wait)
        sent = len(host.provider.requests) + 1
        await host.work(90, size=5_600)
        assert size_of(host.last_sent) // 4 <= WINDOW
        assert host.turns.tally[forwarding.SLOW] == 1  # the small one before it was not waited for


async def test_a_request_that_would_not_fit_goes_out_where_the_compaction_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(self: OpenSession) -> Failed:
        return Failed(text="it came to nothing", reason="error")

    async with open_talk(tmp_path) as (host, _):
        await _fill(host, 60)
        monkeypatch.setattr(OpenSession, "relieve", fail)
        await host.work(90, size=5_600)
        assert host.last_sent == host.history[:-1]


async def test_a_compaction_is_ready_before_the_net_is_reached_and_requests_go_on_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, release = asyncio.Event(), asyncio.Event()
    make = compactor.make

    async def wait(work: Workspace, info: SessionInfo) -> Outcome:
        made.set()
        await release.wait()
        return await make(work, info)

    monkeypatch.setattr(compactor, "make", wait)
    async with open_talk(tmp_path, safety_threshold_percent=90, reserve_tokens=0) as (host, store):
        settle = host.turns.settle

        async def settle_or_make() -> None:
            both = {asyncio.create_task(settle()), asyncio.create_task(made.wait())}
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)

        host.turns.settle = settle_or_make
        number = 0
        while not made.is_set():
            await host.work(number, size=300)
            number += 1
        before = len(host.provider.requests)
        await host.work(number, size=300)
        assert len(host.provider.requests) == before + 2
        assert host.turns.tally[forwarding.SLOW] == host.turns.tally[forwarding.COMPACTED] == 0
        monkeypatch.setattr(compactor, "make", None)  # what is ready is saved: no other is made
        release.set()
        host.turns.settle = settle
        await settle()
        while not host.turns.tally[forwarding.COMPACTED]:
            number += 1
            await host.work(number, size=200)
        (info,) = await compactor.list_sessions(store.workspace, store.project)
        (receipt,) = await compactor.receipts(store.workspace, info)
        assert receipt.after < receipt.before <= WINDOW


@pytest.mark.parametrize("shape", PATHS)
async def test_a_large_result_is_a_preview_from_the_first_request_on_where_that_is_asked_for(
    tmp_path: Path, shape: str
) -> None:
    wish: dict[str, Any] = {"offload_over_tokens": 500}
    provider = StrictProvider(shape)
    async with open_talk(tmp_path, provider, window_tokens=100_000, **wish) as (host, store):
        await host.work(1, size=900)
        before = host.last_sent
        assert before == host.history[:-1]
        await host.work(2, size=9_000)
        shown = host.last_sent
        assert size_of(shown) < size_of(before) + 3_000
        await host.say("What was in it?")
        assert host.last_sent[: len(shown)] == shown
        assert shown[: len(before)] == before
        assert host.provider.faults == []
        (info,) = await compactor.list_sessions(store.workspace, store.project)
        (whole,) = await compactor.originals(store.workspace, info, f"m{len(shown)}")
        assert whole.message.results[0].text == "line of file-2 " * 500
        assert f"m{len(shown)} " in json.dumps(shown[-1])


async def test_a_shadow_changes_nothing_and_tells_what_it_would_have_sent(tmp_path: Path) -> None:
    async with open_talk(tmp_path, agent_controlled=False, is_shadow=True) as (host, _):
        await host.work_until_compacted()
        assert host.last_sent == host.history[:-1]
        sent = len(host.provider.requests)
        counts = {"requests passed as they came": sent, "compactions that would have been made": 1}
        fitted = "requests that would have been sent with our records in them"
        assert host.turns.tally == {**counts, fitted: 3}
        whole, without, price, step = host.turns.ledger.lines()
        assert "the price of m is not listed" in price
        assert f"{sent} calls" in whole
        assert "without --shadow: about" in without
        (account,) = host.turns.ledger.accounts.values()
        (found,) = account.steps
        assert found.after.read < 0.8 * found.before.read
        assert f"{kilo(found.before.read)} -> {kilo(found.after.read)} tokens a request" in step
        assert account.total.read - account.would_be.read > found.before.read - found.after.read


@pytest.mark.thorough
async def test_a_shadow_gateway_tells_its_user_in_plain_words(tmp_path: Path) -> None:
    arguments = ["--shadow", "--home", str(tmp_path / "store")]
    async with provide(StrictProvider(), remembers=False) as upstream:
        process = await asyncio.create_subprocess_exec(
            *(PROGRAM, "gateway", "--upstream", upstream.url, *arguments),
            cwd=tmp_path,
            env={**os.environ, "MCP_COMPACTION_WINDOW_TOKENS": str(WINDOW)},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        assert process.stdout is not None
        url = (await process.stdout.readline()).decode().rpartition(" ")[2].strip()
        history: list[Any] = []
        async with httpx2.AsyncClient(trust_env=False, verify=False, timeout=60) as client:
            for number in range(9):
                history.append({"role": "user", "content": f"Part {number}: " + "so it is. " * 160})
                body = {"model": "m", "tools": TOOLS, "messages": history}
                headers = {"x-claude-code-session-id": "chat-1"}
                await client.post(f"{url}/v1/messages", json=body, headers=headers)
                answer = [{"type": "text", "text": f"answer {number + 1}"}]
                history.append({"role": "assistant", "content": answer})
        process.terminate()
        told, errors = await process.communicate()
    assert errors == b""  # the safety net's entry in the log is none of the user's
    assert b"nothing was changed; compactions that would have been made: " in told
    assert b"requests passed as they came: 9" in told


@pytest.mark.parametrize(
    ("given", "program", "window"),
    [
        ({"CLAUDE_CODE_AUTO_COMPACT_WINDOW": "200000"}, "/usr/bin/claude", 167_000),
        ({"CLAUDE_CODE_AUTO_COMPACT_WINDOW": "200000"}, "codex", None),
        ({"MCP_COMPACTION_WINDOW_TOKENS": "90000"}, "claude", 90_000),
        ({}, "claude", None),
    ],
)
def test_a_run_compacts_before_its_host_does(
    tmp_path: Path, given: dict[str, str], program: str, window: int | None
) -> None:
    environ = {"HOME": str(tmp_path), **given}
    settings = within_limit(load_settings(environ), program, environ)
    assert settings.policy.window_set == window
