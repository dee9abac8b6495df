"""The one door before all four servers: who is refused, and that strangers keep nobody out."""

from __future__ import annotations

import asyncio
import json
import socket
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from mcp_compaction.door import ConnectionLimits
from mcp_compaction.viewer import PageKey
from tests.doors import FEW, PATIENCE, OpenDoor, all_doors, open_page, open_plugin
from tests.fuzzed_requests import broken_requests, hostile_bodies

pytestmark = pytest.mark.anyio

MANY = 300  # silent connections, of which sixteen may wait


@all_doors
async def test_who_may_not_come_in_is_told_so_in_one_form(
    open_door: OpenDoor, tmp_path: Path
) -> None:
    async with open_door(tmp_path, ConnectionLimits()) as door:
        refused = [
            (401, await door.with_token("").ask()),
            (401, await door.with_token("guessed").ask()),
            (401, await door.with_token(door.token[:-1]).ask()),
            (421, await door.ask(Host="evil.example")),
            (421, await door.ask(Host=f"127.0.0.1.evil.example:{door.port}")),
            (421, await door.ask(Host="127.0.0.1")),
            (403, await door.ask(Origin="http://evil.example")),
            (403, await door.ask(Origin="null")),
            (403, await door.ask(Origin="")),
        ]
        for status, (found, said) in refused:
            assert found == status
            assert json.loads(said)["error"]["message"].startswith("mcp-compaction: ")
            assert door.token.encode() not in said
        assert (await door.ask())[0] == 200
        assert (await door.ask(Host=f"localhost:{door.port}"))[0] == 200


@all_doors
async def test_a_crowd_in_silence_keeps_nobody_out(open_door: OpenDoor, tmp_path: Path) -> None:
    async with open_door(tmp_path, FEW) as door:
        with ExitStack() as closing:
            crowd: list[asyncio.StreamReader] = []
            for _ in range(MANY):
                reader, writer = await asyncio.open_connection("127.0.0.1", door.port)
                closing.callback(writer.close)
                crowd.append(reader)
            assert (await door.ask())[0] == 200
            for silent in crowd[: MANY - FEW.waiting]:  # those that gave way, the oldest first
                with pytest.raises((ConnectionError, EOFError)):
                    await asyncio.wait_for(silent.readexactly(1), PATIENCE)


@all_doors
async def test_a_crowd_that_comes_at_once_cuts_nobody_who_came_before_it(
    open_door: OpenDoor, tmp_path: Path
) -> None:
    limits = ConnectionLimits()
    async with open_door(tmp_path, limits) as door:
        assert (await door.ask())[0] == 200  # what is made for a first request is there
        with ExitStack() as closing, socket.socket() as friend:
            # Without a pause: the server, in this thread, sees them all at once.
            friend.connect(("127.0.0.1", door.port))
            friend.sendall(door.bytes_of())
            for _ in range(3 * limits.waiting_of_peer):
                stranger = closing.enter_context(socket.socket())
                stranger.connect(("127.0.0.1", door.port))
            reader, writer = await asyncio.open_connection(sock=friend)
            said = await asyncio.wait_for(reader.read(), PATIENCE)
            writer.close()
            assert said.startswith(b"HTTP/1.1 200")
            assert (await door.ask())[0] == 200  # after all of them


@pytest.mark.parametrize("path", ["/mcp/", "/healthz/", "/api/sessions/"])
@all_doors
async def test_no_answer_leads_to_the_host_that_a_stranger_names(
    open_door: OpenDoor, tmp_path: Path, path: str
) -> None:
    async with open_door(tmp_path, ConnectionLimits()) as door:
        status, _ = await replace(door, path=path).with_token("").ask(Host="evil.example")
        assert status in (401, 404, 421)


@all_doors
async def test_who_stays_silent_is_cut_when_the_time_is_over(
    open_door: OpenDoor, tmp_path: Path
) -> None:
    async with open_door(tmp_path, ConnectionLimits(seconds_to_secret=0.1)) as door:
        for begun in (b"", b"POST /", door.with_token("guessed").bytes_of(b"{}")[:-1]):
            reader, writer = await asyncio.open_connection("127.0.0.1", door.port)
            writer.write(begun)
            with suppress(ConnectionError):
                await asyncio.wait_for(reader.read(), PATIENCE)
            writer.close()


@all_doors
async def test_a_body_over_the_limit_is_refused_told_or_in_chunks(
    open_door: OpenDoor, tmp_path: Path
) -> None:
    async with open_door(tmp_path, ConnectionLimits()) as door:
        if door.most_body is None:
            pytest.skip("what passes as it comes has no limit here")
        assert (await door.ask(None, **{"Content-Length": str(door.most_body + 1)}))[0] == 413
        if door.most_body > 2**22:
            return  # chunks of that size take too long
        head = door.bytes_of(b"").replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
        size = door.most_body + 1
        sent = head + f"{size:x}\r\n".encode() + b" " * size + b"\r\n"
        assert (await door.say(sent))[0] in (413, 0)
        assert (await door.ask())[0] == 200


PATHS = {
    "_open_viewer": ("/api/session/1/search", "/api/session/1/undo", "/api/token"),
    "_open_gateway": ("/secret-of-this-run/api/v1/messages",),
    "_open_module": ("/opencode/view",),
    "_open_http": ("/mcp",),
}
FIELDS = ("words", "ref", "jsonrpc", "id", "params")


@all_doors
async def test_hostile_requests_meet_no_error_that_nobody_caught(
    open_door: OpenDoor, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    limits = ConnectionLimits(seconds_to_secret=0.2)  # some never end their request
    async with open_door(tmp_path, limits) as door:
        caplog.set_level("ERROR", "uvicorn.error")
        paths = PATHS[open_door.__name__]
        for sent in (*broken_requests(door), *hostile_bodies(door, paths, FIELDS)):
            status, said = await door.say(sent)
            assert status != 500, sent[:300] + sent[-100:]
            assert b"Traceback" not in said
        assert (await door.ask())[0] == 200
    assert [record.getMessage() for record in caplog.records if record.exc_info] == []


async def test_what_is_behind_the_modules_door_meets_no_such_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_plugin(tmp_path) as door:
        caplog.set_level("ERROR", "uvicorn.error")
        paths = [f"/claude/{name}" for name in ("turn", "result", "request", "status", "window")]
        names = ("tokens", "text", "request", "args", "limit_tokens", "falls")
        for sent in hostile_bodies(door, ["/opencode/view", *paths], names, b'"session": "s", '):
            assert (await door.say(sent))[0] != 500, sent[:300] + sent[-100:]
        assert (await door.ask())[0] == 200
    assert [record.getMessage() for record in caplog.records if record.exc_info] == []


async def test_a_code_opens_the_page_once_and_only_in_its_minute(tmp_path: Path) -> None:
    now = [100.0]
    key = PageKey(now=lambda: now[0])
    async with open_page(tmp_path, key) as page:
        door, code, late = replace(page, path="/api/token"), key.make_code(), key.make_code()
        door = replace(door, method="POST")
        assert (await page.with_token(code).ask())[0] == 401  # it opens nothing but the exchange
        status, told = await door.with_token(code).ask()
        assert (status, json.loads(told)) == (200, {"token": key.token})
        assert (await door.with_token(code).ask())[0] == 401
        now[0] += 61
        assert (await door.with_token(late).ask())[0] == 401
        assert (await page.ask())[0] == 200
    assert key.token not in repr(key)
    assert late not in repr(key)
