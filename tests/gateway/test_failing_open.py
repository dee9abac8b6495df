"""Whatever fails in the gateway, the host gets what it would have got, or the last substitute."""

from __future__ import annotations

import asyncio
import gzip
import json
import sqlite3
from pathlib import Path
from typing import Any

import httpx2
import pytest

from mcp_compaction import compactor
from mcp_compaction.gateway import forwarding
from mcp_compaction.gateway.conversation import GatewayConversation
from mcp_compaction.gateway.keeping import path_of_layout
from mcp_compaction.gateway.running import StoreOpening
from mcp_compaction.gateway.turns import CallTurns
from mcp_compaction.settings import load_settings
from mcp_compaction.store.connect import store_path
from tests.gateway.talking import WINDOW, Host, StrictProvider, open_talk, size_of
from tests.gateway.upstream import open_gateway, provide, write_chunk, write_head, write_whole

pytestmark = [pytest.mark.anyio, pytest.mark.thorough]


class Broken(Exception):
    """A fault that nobody has foreseen."""


async def _broken(*_: Any, **__: Any) -> Any:
    raise Broken("with what was said in it")


STEPS = ["lay_out", "accept", "record_answer", "relieve", "_fit", "_append", "_view", "_begin"]


async def test_a_fault_at_any_step_sends_the_last_substitute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_talk(tmp_path, agent_controlled=False) as (host, _):
        await host.work_until_compacted()
        before = host.last_sent
        for step in STEPS:
            with monkeypatch.context() as patched:
                patched.setattr(GatewayConversation, step, _broken)
                await host.say("Go on.")
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
        monkeypatch.setattr(GatewayConversation, step, _broken)
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


@pytest.mark.parametrize("fault", ["locked", "damaged", "not to be opened"])
async def test_another_process_without_its_store_sends_the_last_substitute(
    tmp_path: Path, fault: str
) -> None:
    strict = StrictProvider()
    async with open_talk(tmp_path, strict, agent_controlled=False) as (host, _):
        await host.work_until_compacted()
        history, before = host.history, host.last_sent
    lock = sqlite3.connect(store_path(tmp_path), isolation_level=None)
    if fault == "locked":
        lock.execute("BEGIN EXCLUSIVE")
    else:
        lock.close()
        store_path(tmp_path).write_bytes(b"no database at all" * 1000)
    wanted = {"MCP_COMPACTION_HOME": str(tmp_path), "MCP_COMPACTION_WINDOW_TOKENS": str(WINDOW)}
    opening = StoreOpening(load_settings(wanted), str(tmp_path))
    open_it = _broken if fault == "not to be opened" else opening.store
    turns = CallTurns(open_it, load_settings(wanted))
    async with provide(strict) as upstream, open_gateway(upstream.url, turns) as (client, _):
        host = Host(client, turns, strict, history=[*history, _user("Go on.")])
        response = await client.post("/v1/messages", json=host.body(), headers=host.headers)
        lock.close()
        assert response.status_code == 200
        assert host.last_sent[: len(before)] == before
        assert size_of(host.last_sent) < size_of(host.history) * 0.8
        assert strict.faults == []
        await turns.settle()
    await opening.close()


async def test_the_file_of_a_substitute_holds_no_secret(tmp_path: Path) -> None:
    key = "AKIAQ7XNBWZR3KDM5PTV"
    async with open_talk(tmp_path, agent_controlled=False) as (host, _):
        await host.say(f"Deploy with {key}. " + "Read all of it. " * 300)
        await host.work_until_compacted()
        kept = [path.read_text() for path in tmp_path.glob("gateway/substitutes/*.json")]
        assert len(kept) == 1
        assert key not in kept[0]
        assert "[masked:aws" in kept[0]


@pytest.mark.parametrize("content", ["", "[]", '{"length": 1}', '{"length": 1, "mark": "x"'])
async def test_a_broken_file_of_a_substitute_is_as_none(tmp_path: Path, content: str) -> None:
    path = path_of_layout(tmp_path, "claude-code", "chat-1", "")
    path.parent.mkdir(parents=True)
    path.write_text(content)
    async with open_talk(tmp_path) as (host, _):
        await host.say("Hello.")
        assert host.last_sent == host.history[:1]


async def test_what_takes_too_long_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    released = asyncio.Event()
    lay_out = GatewayConversation.lay_out

    async def wait(self: GatewayConversation, given: Any) -> Any:
        await released.wait()
        return await lay_out(self, given)

    async with open_talk(tmp_path, agent_controlled=False, patience=0.0) as (host, _):
        host.turns.patience = 30.0
        await host.work_until_compacted()
        before = host.last_sent
        host.turns.patience = 0.0
        monkeypatch.setattr(GatewayConversation, "lay_out", wait)
        body = host.body([*host.history, _user("Go on.")])
        response = await host.client.post("/v1/messages", json=body, headers=host.headers)
        released.set()
        assert response.status_code == 200
        assert host.last_sent[: len(before)] == before
        assert host.turns.tally[forwarding.SLOW] == 1


async def test_an_overflow_is_compacted_and_sent_once_more(tmp_path: Path) -> None:
    strict = StrictProvider(window=9_000)
    async with open_talk(tmp_path, strict, window_tokens=200_000) as (host, _):
        for number in range(12):
            await host.work(number)
        assert strict.faults == []
        assert host.turns.tally["made smaller and sent again after an overflow"] >= 1
        assert size_of(host.history) > strict.window


@pytest.mark.parametrize("refuses_all", [False, True])
async def test_a_login_that_is_refused_for_changed_requests_has_them_sent_as_they_came(
    tmp_path: Path, refuses_all: bool
) -> None:
    strict = StrictProvider()

    async def refuse(asked: Any, writer: Any) -> None:
        if refuses_all or json.loads(asked.body)["messages"] != host.history:
            asks.append("changed")
            write_whole(writer, b"not with this login", 403)
        else:
            asks.append("as it came")
            await strict.answer(asked, writer)

    asks: list[str] = []
    recorded: list[int] = []
    async with open_talk(tmp_path, strict, agent_controlled=False) as (host, store):
        await host.work_until_compacted()
        strict.hears = refuse
        for text in ("One.", "Two."):
            host.history.append(_user(text))
            response = await host.post(host.body())
            assert response.status_code == (403 if refuses_all else 200)
            (info,) = await compactor.list_sessions(store.workspace, store.project)
            recorded.append(info.messages)
        assert recorded[0] == recorded[1]  # the second went by: hooks may record it
        assert info.traits.owns_window is refuses_all
        if refuses_all:
            assert asks == ["changed"] * 3  # once more, and never again
            assert response.content == b"not with this login"
        else:
            assert asks == ["changed", "as it came", "as it came"]
            assert host.turns.is_aside


OVERFLOW = "Your input exceeds the context window of this model. Please adjust your input."
ERRORS: dict[str, Any] = {
    "anthropic": {"type": "error", "error": {"message": "prompt is too long: 9 tokens > 8"}},
    "responses": {"type": "response.failed", "response": {"error": {"message": OVERFLOW}}},
    "openai": {"error": {"message": OVERFLOW}},
}


@pytest.mark.parametrize("kind", ["a summary", "an answer not recorded", "an overflow"])
async def test_a_gateway_that_steps_aside_gives_the_window_back_whatever_it_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    async def refuse_changed(asked: Any, writer: Any) -> None:
        if json.loads(asked.body)["messages"] != body["messages"]:
            write_whole(writer, b"not with this login", 403)
        elif kind == "an overflow":
            stream = f"data: {json.dumps(ERRORS['anthropic'])}\n\n".encode()
            write_whole(writer, stream, content_type="text/event-stream")
        else:
            await strict.answer(asked, writer)

    async def fail(*_: object) -> None:
        raise OSError

    strict = StrictProvider()
    async with open_talk(tmp_path, strict, agent_controlled=False) as (host, store):
        await host.work_until_compacted()
        strict.hears = refuse_changed
        if kind == "an answer not recorded":
            monkeypatch.setattr(GatewayConversation, "record_answer", fail)
        is_summary = kind == "a summary"
        text = "Your task is to create a detailed summary of the conversation so far."
        body = host.body([*host.history, _user(text if is_summary else "Well?")])
        heard: list[bool] = []
        host.turns.on_change = lambda: heard.append(host.turns.is_aside)
        await host.post(body)
        (info,) = await compactor.list_sessions(store.workspace, store.project)
        assert not info.traits.owns_window
        assert True in heard  # hooks are told that they may act


@pytest.mark.parametrize("shape", ERRORS)
async def test_an_overflow_inside_a_stream_passes_and_the_next_request_is_smaller(
    tmp_path: Path, shape: str
) -> None:
    stream = f"data: {json.dumps(ERRORS[shape])}\n\n".encode()

    async def fail(asked: Any, writer: Any) -> None:
        write_whole(writer, stream, content_type="text/event-stream")

    strict = StrictProvider(shape)
    async with open_talk(tmp_path, strict, window_tokens=200_000) as (host, _):
        for number in range(6):
            await host.work(number)
        before = size_of(host.last_sent)
        strict.hears = fail
        host.history.append(_user("Go on."))
        assert (await host.post(host.body())).content == stream
        strict.hears = None
        await host.go_on()
        assert size_of(host.last_sent) < before
        assert strict.faults == []


async def test_a_stream_that_is_cut_at_any_byte_is_cut_for_the_host_and_hinders_nothing(
    tmp_path: Path,
) -> None:
    async with open_talk(tmp_path, agent_controlled=False) as (host, _):
        await host.work_until_compacted()
        before = host.last_sent
        whole = (await host.post(host.body([*host.history, _user("Go on.")]))).content
        for cut in range(0, len(whole), 10):

            async def break_off(asked: Any, writer: Any, part: bytes = whole[:cut]) -> None:
                head = {"content-type": "text/event-stream", "transfer-encoding": "chunked"}
                write_head(writer, 200, head)
                if part:
                    write_chunk(writer, part)
                writer.close()

            host.provider.hears = break_off
            body = host.body([*host.history, _user("Go on.")])
            with pytest.raises(httpx2.RemoteProtocolError):
                await host.post(body)
        host.provider.hears = None
        await host.turns.settle()
        await host.say("Go on.")
        assert host.last_sent[: len(before)] == before
        assert not [kind for kind in host.turns.tally if "fail" in kind or "could not" in kind]


class FaultyTurn:
    """A turn that fails at one step."""

    def __init__(self, step: str, body: bytes) -> None:
        self.body = body
        self.out = self  # what of it is sent
        self._step = step

    def __getattr__(self, name: str) -> Any:
        def do(*given: Any, **_: Any) -> Any:
            if name == self._step:
                raise Broken
            return given[0] if name == "narrow" else False

        async def mend(*given: Any, **named: Any) -> bool:
            return bool(do(*given, **named))

        return mend if name == "mend" else do


@pytest.mark.parametrize("status", [200, 400])
@pytest.mark.parametrize("step", ["narrow", "begin_answer", "hear", "end", "mend"])
async def test_a_fault_of_ours_while_an_answer_passes_changes_nothing_of_it(
    tmp_path: Path, step: str, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def begin(path: str, headers: Any, body: bytes) -> Any:
        return FaultyTurn(step, body)

    async def answer(asked: Any, writer: Any) -> None:
        write_whole(writer, b"what it said", status)

    async with open_talk(tmp_path, StrictProvider(hears=answer)) as (host, _):
        monkeypatch.setattr(host.turns, "begin", begin)
        response = await host.post(host.body([_user("Hello.")]))
        assert (response.status_code, response.content) == (status, b"what it said")
        is_reached = (step, status) not in (("mend", 200), ("hear", 400))
        assert sum(host.turns.tally.values()) == is_reached


async def test_others_are_answered_while_one_waits_for_a_slow_provider(tmp_path: Path) -> None:
    begun, released = asyncio.Event(), asyncio.Event()
    strict = StrictProvider()

    async def wait(asked: Any, writer: Any) -> None:
        if b"slowly" in asked.body:
            begun.set()
            await released.wait()
        await strict.answer(asked, writer)

    strict.hears = wait
    async with open_talk(tmp_path, strict) as (host, _):
        body = host.body([_user("Think slowly.")])
        slow = asyncio.create_task(
            host.client.post("/v1/messages", json=body, headers=host.headers)
        )
        await begun.wait()
        await Host(host.client, host.turns, strict, session="chat-2").say("Hello.")
        await Host(host.client, host.turns, strict, agent="agent-1").say("Hello.")
        released.set()
        assert (await slow).status_code == 200


@pytest.mark.parametrize("encoding", ["gzip", "br"])
async def test_a_compressed_overflow_is_mended_where_it_can_be_read(
    tmp_path: Path, encoding: str
) -> None:
    error = b'{"type": "error", "error": {"message": "prompt is too long: 9 tokens > 8 maximum"}}'
    packed = gzip.compress(error) if encoding == "gzip" else b"\x0b not for us"
    strict = StrictProvider()

    async def refuse(asked: Any, writer: Any) -> None:
        strict.hears = None
        write_whole(writer, packed, 400, content_encoding=encoding)

    async with open_talk(tmp_path, strict, window_tokens=200_000) as (host, _):
        for number in range(6):
            await host.work(number)
        host.history.append(_user("Go on."))
        strict.hears = refuse
        url = "/v1/messages"
        async with host.client.stream(
            "POST", url, json=host.body(), headers=host.headers
        ) as response:
            got = b"".join([piece async for piece in response.aiter_raw()])
        is_mended = encoding == "gzip"
        assert response.status_code == (200 if is_mended else 400)
        assert (got == packed) is not is_mended
        await host.turns.settle()


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
