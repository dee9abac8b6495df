"""Whatever fails in the gateway, the host gets what it would have got, or the last substitute."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from mcp_compaction.gateway.conversation import Conversation
from mcp_compaction.store.connect import store_path
from tests.gateway.talking import StrictProvider, open_talk, size_of

pytestmark = pytest.mark.anyio


class Broken(Exception):
    """A fault that nobody has foreseen."""


async def _broken(*_: Any, **__: Any) -> Any:
    raise Broken("with what was said in it")


STEPS = ["read", "lay_out", "accept", "record_answer", "relieve", "_fit", "_view", "_begin"]


async def test_a_fault_at_any_step_sends_the_last_substitute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_talk(tmp_path, agent_controlled=False) as (host, _):
        await host.work_until_compacted()
        before = host.last_sent
        for step in STEPS:
            with monkeypatch.context() as patched:
                patched.setattr(Conversation, step, _broken)
                await host.say("Go on.")
            if step != "read":  # without which nothing is known of a request
                assert host.last_sent[: len(before)] == before, step
        await host.say("Whole again.")
        assert host.last_sent[: len(before)] == before
        assert host.provider.faults == []
        assert "what was said" not in caplog.text


@pytest.mark.parametrize("step", STEPS)
async def test_a_fault_in_the_first_request_sends_it_as_it_came(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    async with open_talk(tmp_path) as (host, _):
        monkeypatch.setattr(Conversation, step, _broken)
        await host.say("Hello.")
        assert host.last_sent == host.history[:1]


async def test_a_store_that_is_locked_stops_nothing(tmp_path: Path) -> None:
    async with open_talk(tmp_path, agent_controlled=False) as (host, _):
        await host.work_until_compacted()
        before = host.last_sent
        lock = sqlite3.connect(store_path(tmp_path), isolation_level=None)
        lock.execute("BEGIN EXCLUSIVE")
        try:
            where, body = "/v1/messages", host.body([*host.history, _user("Go on.")])
            response = await host.client.post(where, json=body, headers=host.headers)
            assert response.status_code == 200
            assert host.last_sent[: len(before)] == before
        finally:
            lock.execute("ROLLBACK")
            lock.close()
        await host.turns.settle()


async def test_what_takes_too_long_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    released = asyncio.Event()
    lay_out = Conversation.lay_out

    async def wait(self: Conversation, given: Any) -> Any:
        await released.wait()
        return await lay_out(self, given)

    async with open_talk(tmp_path, agent_controlled=False, patience=0.0) as (host, _):
        host.turns.patience = 30.0
        await host.work_until_compacted()
        before = host.last_sent
        host.turns.patience = 0.0
        monkeypatch.setattr(Conversation, "lay_out", wait)
        body = host.body([*host.history, _user("Go on.")])
        response = await host.client.post("/v1/messages", json=body, headers=host.headers)
        released.set()
        assert response.status_code == 200
        assert host.last_sent[: len(before)] == before
        assert host.turns.tally["took too long, the last substitute was sent"] == 1


async def test_an_overflow_is_compacted_and_sent_once_more(tmp_path: Path) -> None:
    strict = StrictProvider(window=9_000)
    async with open_talk(tmp_path, strict, window_tokens=200_000) as (host, _):
        for number in range(12):
            await host.work(number)
        assert strict.faults == []
        assert host.turns.tally["made smaller and sent again after an overflow"] >= 1
        assert size_of(host.history) > strict.window


async def test_an_overflow_that_cannot_be_mended_comes_through_as_it_is(tmp_path: Path) -> None:
    async with open_talk(tmp_path, StrictProvider(window=50)) as (host, _):
        host.history = [_user("x" * 400)]
        response = await host.post(host.body())
        assert response.status_code == 400
        assert "prompt is too long" in response.json()["error"]["message"]


STRANGE: list[object] = [
    [],
    {"messages": []},
    {"messages": ["text"]},
    {"messages": [{"role": 7, "content": {"a": 1}}], "tools": [{}]},
    {"messages": [{"role": "user"}], "tools": "x"},
]


@pytest.mark.parametrize("raw", [b"not JSON", *(json.dumps(one).encode() for one in STRANGE)])
async def test_what_is_no_request_that_we_know_passes_as_it_is(tmp_path: Path, raw: bytes) -> None:
    strict = StrictProvider(status=400)
    async with open_talk(tmp_path, strict) as (host, _):
        came: list[bytes] = []
        answer = strict.answer

        async def listen(asked: Any, writer: Any) -> None:
            came.append(asked.body)
            asked.body = b"{}"
            await answer(asked, writer)

        host.provider.hears = listen
        response = await host.client.post("/v1/messages", content=raw, headers=host.headers)
        assert came == [raw]
        assert response.status_code == 400


def _user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}
