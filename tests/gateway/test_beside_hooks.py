"""Hooks and a server of ours beside a gateway: a message is recorded once, a pin shown once."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from uuid import uuid4

import httpx2
import pytest

from mcp_compaction import compactor, open_store
from mcp_compaction.gateway.conversation import GatewayConversation
from mcp_compaction.hosts.chat import HostChats
from mcp_compaction.hosts.finding import transcripts_at
from mcp_compaction.hosts.handling import EventHandler, HostEvent
from mcp_compaction.hosts.recording import record_new
from mcp_compaction.hosts.serving import (
    PROCESS,
    RunningGateway,
    ServedChat,
    forget_chat,
    forget_gateway,
    gateway_around,
    gateway_of_chat,
    is_through_gateway,
    note_chat,
    note_gateway,
    running_gateways,
)
from tests.checkers import Json
from tests.gateway.talking import Host, open_talk
from tests.gateway.upstream import Asked, write_head, write_whole

pytestmark = pytest.mark.anyio

RULE = "Never push to main without a review."


def _gateway(process: int, port: int, **chats: str) -> RunningGateway:
    return RunningGateway(process, port, "/shop", "claude-code", "2026-11-16", chats, {})


@pytest.mark.parametrize("has_gateway", [True, False])
async def test_hooks_stand_down_while_a_gateway_shows_the_pins(
    tmp_path: Path, has_gateway: bool
) -> None:
    async with open_store(home=tmp_path, project=tmp_path) as store:
        await (await store.session("other")).pin(RULE, by="user", scope="project")
        handler = EventHandler(HostChats(store.project, {}, has_gateway=lambda _: has_gateway))
        event = HostEvent(
            host="claude-code", name="SessionStart", session="chat-1", transcript="", source="clear"
        )
        answer = await handler.handle(store.workspace, event)
        assert (RULE in answer.text) is not has_gateway


async def test_a_gateway_passes_requests_as_they_come_where_our_module_serves_the_chat(
    tmp_path: Path,
) -> None:
    async with open_talk(tmp_path) as (host, store):
        await host.work_until_compacted()
        assert len(host.last_sent) < len(host.history) - 1
        (info,) = await compactor.list_sessions(store.workspace, store.project)
        recorded = info.messages
        note_chat(tmp_path, ServedChat(host.session, os.getpid()))
        await host.say("Hello.")
        assert host.last_sent == host.history[:-1]
        assert host.session not in host.turns.chats
        helper = Host(host.client, host.turns, host.provider, agent="a7")
        await helper.say("Look at the parser.")  # which the module leaves to others
        sessions = {
            one.agent: one for one in await compactor.list_sessions(store.workspace, store.project)
        }
        assert sessions[""].messages == recorded
        assert not sessions[""].traits.owns_window
        assert sessions["a7"].messages == 2
        forget_chat(tmp_path, host.session)
        await host.say("And now?")
        assert len(host.last_sent) < len(host.history) - 1


async def test_what_went_through_a_gateway_is_not_recorded_again_from_the_transcript(
    tmp_path: Path,
) -> None:
    environ = {"CLAUDE_CONFIG_DIR": str(tmp_path / "claude")}
    folder = tmp_path / "claude/projects/-shop"
    transcript = folder / "chat-1.jsonl"
    helpers = folder / "chat-1/subagents/agent-a7.jsonl"
    helpers.parent.mkdir(parents=True)
    async with open_talk(tmp_path, environ=environ) as (host, store):
        await host.say("Hello.")
        await host.work(1)
        helper = Host(host.client, host.turns, host.provider, agent="a7")
        await helper.say("Look at the parser.")
        _write_transcript(transcript, host.history)
        _write_transcript(helpers, helper.history, agentId="a7", isSidechain=True)
        await host.turns.close()
        outside = [{"role": "user", "content": "Said outside."}]
        _write_transcript(transcript, outside)
        for one in transcripts_at(folder, environ):
            await record_new(store.workspace, one, lambda _: store.project)
        sessions = await compactor.list_sessions(store.workspace, store.project)
        told = {info.agent: info.messages for info in sessions}
        assert told == {"": len(host.history) + 1, "a7": len(helper.history)}


async def test_after_an_answer_that_broke_off_only_what_is_missing_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environ = {"CLAUDE_CONFIG_DIR": str(tmp_path / "claude")}
    transcript = tmp_path / "claude/projects/-shop/chat-1.jsonl"
    transcript.parent.mkdir(parents=True)
    async with open_talk(tmp_path, environ=environ) as (host, store):
        host.turns.writing_seconds = 0.0
        await host.say("Hello.")
        _write_transcript(transcript, host.history)
        await host.turns.settle()
        (one,) = transcripts_at(transcript, environ)
        async with asyncio.timeout(60):
            while await store.workspace.store.find_transcript(one.address) is None:
                await asyncio.sleep(0)
        written = len(host.history)
        await _break_off(host, tmp_path / "elsewhere.jsonl", monkeypatch)
        half: Json = {"role": "assistant", "content": "Not recorded."}
        _write_transcript(transcript, [*host.history[written:], half])
        await host.turns.close()
        await record_new(store.workspace, one, lambda _: store.project)
        (info,) = await compactor.list_sessions(store.workspace, store.project)
        log = await compactor.originals(store.workspace, info, f"m1..m{info.messages}")
        said = [one.message.text for one in log]
        assert said == ["Hello.", "answer 1", "Well?", "Not recorded."]


Talk = Callable[[Host, Path, pytest.MonkeyPatch], Awaitable[None]]


async def _fail(*_: object) -> None:
    raise OSError


async def _say_while_requests_are_not_recorded(
    host: Host, transcript: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(GatewayConversation, "_accept", _fail)
    await host.say("Not recorded.")
    _write_transcript(transcript, host.history)


async def _say_while_answers_are_not_recorded(
    host: Host, transcript: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(GatewayConversation, "record_answer", _fail)
    host.provider.said.append({"text": "Not recorded."})
    await host.say("Well?")
    _write_transcript(transcript, host.history)


async def _rewind(host: Host, transcript: Path, _: pytest.MonkeyPatch) -> None:
    await host.say("Taken back.")
    taken_back = host.history[2:]
    host.history = host.history[:2]
    await host.say("Not recorded.")
    _write_transcript(transcript, [*host.history[:2], *taken_back, *host.history[2:]])


async def _say_while_overloaded(host: Host, transcript: Path, _: pytest.MonkeyPatch) -> None:
    host.provider.status = 529
    host.history.append({"role": "user", "content": "Not recorded."})
    assert (await host.post(host.body())).status_code == 529
    _write_transcript(transcript, host.history)


async def _break_off(host: Host, transcript: Path, _: pytest.MonkeyPatch) -> None:
    async def break_off(_: Asked, writer: asyncio.StreamWriter) -> None:
        write_head(writer, 200, {"content-length": "500", "content-type": "text/event-stream"})
        writer.write(b'data: {"type": "message_start", "message": {"role": "assistant"}}\n\n')
        await writer.drain()
        writer.close()

    host.provider.hears = break_off
    host.history.append({"role": "user", "content": "Well?"})
    with pytest.raises(httpx2.RemoteProtocolError):
        await host.post(host.body())
    half: Json = {"role": "assistant", "content": "Not recorded."}
    _write_transcript(transcript, [*host.history, half])


async def _go_on_after_standing_aside(host: Host, transcript: Path, _: pytest.MonkeyPatch) -> None:
    async def refuse_changed(asked: Asked, writer: asyncio.StreamWriter) -> None:
        if json.loads(asked.body)["messages"] != host.history:
            write_whole(writer, b"not with this login", 403)
        else:
            await host.provider.answer(asked, writer)

    await host.work_until_compacted()
    host.provider.hears = refuse_changed
    await host.say("As it came.")
    assert host.turns.is_aside
    await host.say("Not recorded.")
    _write_transcript(transcript, host.history)


@pytest.mark.parametrize(
    "talk",
    [
        _say_while_requests_are_not_recorded,
        _say_while_answers_are_not_recorded,
        _rewind,
        _say_while_overloaded,
        _break_off,
        _go_on_after_standing_aside,
    ],
)
async def test_what_a_gateway_did_not_record_is_recorded_from_the_transcript(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, talk: Talk
) -> None:
    environ = {"CLAUDE_CONFIG_DIR": str(tmp_path / "claude")}
    transcript = tmp_path / "claude/projects/-shop/chat-1.jsonl"
    transcript.parent.mkdir(parents=True)
    async with open_talk(tmp_path, environ=environ, agent_controlled=False) as (host, store):
        await host.say("Hello.")
        await talk(host, transcript, monkeypatch)
        await host.turns.close()
        for one in transcripts_at(transcript, environ):
            await record_new(store.workspace, one, lambda _: store.project)
        (info,) = await compactor.list_sessions(store.workspace, store.project)
        log = await compactor.originals(store.workspace, info, f"m1..m{info.messages}")
        assert "Not recorded." in [one.message.text for one in log]


def _write_transcript(path: Path, messages: list[Json], **more: object) -> None:
    with path.open("a", encoding="utf-8") as file:
        for message in messages:
            line = {"type": message["role"], "uuid": str(uuid4()), "sessionId": "chat-1", **more}
            file.write(json.dumps({**line, "message": message}) + "\n")


def test_a_gateway_is_known_by_its_chats_and_by_its_process(
    tmp_path: Path, taken_port: int
) -> None:
    note_gateway(tmp_path, _gateway(os.getpid(), taken_port, one="codex", two="claude-code"))
    environ = {PROCESS: str(os.getpid())}
    around = gateway_around(tmp_path, environ)
    assert around is not None
    assert around.newest_chat == ("claude-code", "two")
    assert gateway_of_chat(tmp_path, "one") == around
    assert gateway_of_chat(tmp_path, "three") is None
    assert is_through_gateway(tmp_path, environ, "three")
    assert not is_through_gateway(tmp_path, {}, "three")
    forget_gateway(tmp_path, os.getpid())
    assert running_gateways(tmp_path) == ()


@pytest.mark.parametrize("platform", ["linux", "win32"])
def test_a_gateway_that_was_killed_is_none_though_its_process_number_is_anothers(
    tmp_path: Path, platform: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        note_gateway(tmp_path, _gateway(os.getpid(), port, one="claude-code"))
        assert is_through_gateway(tmp_path, {}, "one")
    monkeypatch.setattr(sys, "platform", platform)
    environ = {PROCESS: str(os.getpid())}
    assert not is_through_gateway(tmp_path, environ, "one")
    assert gateway_around(tmp_path, environ) is None
