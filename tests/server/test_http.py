"""The HTTP door: who gets in, who does not, and that it cannot be opened in an unsafe way."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Generator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client

from mcp_compaction.door import BoundedServer, ConnectionLimits
from mcp_compaction.errors import InputError, SettingsError, StoreError
from mcp_compaction.server.http import (
    MOST_BODY,
    MOST_CHARS,
    ServerAddress,
    build_app,
    ensure_token,
    serve_http,
    token_path,
)
from mcp_compaction.settings import Settings, load_settings
from tests.server.host import HELLO, META
from tests.server.talking import ERAS, SMALL, Era, Talk
from tests.strategies import coding_session

pytestmark = pytest.mark.anyio

both_eras = pytest.mark.parametrize("era", ERAS)
posix = pytest.mark.skipif(sys.platform == "win32", reason="modes and owners are POSIX")
LONG = coding_session(40, 300)
BRIEF = ConnectionLimits(seconds_to_secret=2)
PATIENCE = 60  # only a net: nothing here waits that long unless it hangs

Headers = dict[str, str]


@dataclass(frozen=True)
class Served:
    """A server on a loopback port, and what opens it."""

    port: int
    home: Path
    token: str

    @property
    def good(self) -> Headers:
        """What a well-behaved client sends."""
        return {
            "Host": f"127.0.0.1:{self.port}",
            "Authorization": f"Bearer {self.token}",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
        }


def settings_of(home: Path) -> Settings:
    return load_settings({"MCP_COMPACTION_HOME": str(home), **SMALL})


@contextlib.contextmanager
def serving(
    home: Path,
    project: str = "/one",
    only_core: bool = False,
    limits: ConnectionLimits | None = None,
) -> Generator[Served]:
    token = ensure_token(home)
    listener = socket.create_server(("127.0.0.1", 0))
    port: int = listener.getsockname()[1]
    app = build_app(
        settings_of(home), project, {}, ServerAddress(port=port), token, only_core=only_core
    )
    server = BoundedServer(app, limits)
    server.config.timeout_graceful_shutdown = 1
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    try:
        yield Served(port, home, token)
    finally:
        server.should_exit = True
        thread.join(PATIENCE)
        listener.close()
        assert not thread.is_alive()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("http") / "home") as served:
        yield served


LEGACY = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}
MODERN = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": META}}
MODERN_HEADERS = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/list"}


def post(served: Served, change: dict[str, str | None], era: Era = "legacy") -> int:
    """The status of an opening request whose good headers are changed or, by None, left out."""
    body = LEGACY if era == "legacy" else MODERN
    headers = served.good | (MODERN_HEADERS if era == "auto" else {})
    wanted = {**{k: v for k, v in headers.items() if k not in change}, **change}
    return send(served, "POST", json.dumps(body).encode(), wanted)[0]


def send(
    served: Served, method: str, body: bytes, headers: dict[str, str | None], path: str = "/mcp"
) -> tuple[int, str]:
    # A server that refuses before it has read the body closes, and a busy machine may then throw
    # its answer away with the rest: whoever lost it asks again.
    for _ in range(4):
        with contextlib.suppress(ConnectionResetError):
            return send_once(served, method, body, headers, path)
    return send_once(served, method, body, headers, path)


def send_once(
    served: Served, method: str, body: bytes, headers: dict[str, str | None], path: str
) -> tuple[int, str]:
    connection = HTTPConnection("127.0.0.1", served.port, timeout=PATIENCE)
    try:
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        for name, value in headers.items():
            if value is not None:
                connection.putheader(name, value)
        connection.putheader("Content-Length", str(len(body)))
        # Who is refused before the body is read may find the connection closed.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            connection.endheaders(body)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


# Who gets in


@both_eras
@pytest.mark.parametrize(
    "authorization",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        "Bearer  ",
        "Bearer wrong",
        "Bearer {token}x",
        "Bearer x{token}",
        "Bearer {token} {token}",
        "Bearer {first}",
        "Bearer {upper}",
        "Bearer \u00e9\u00e9\u00e9",
        "Basic {token}",
        "{token}",
        "Token {token}",
    ],
)
def test_who_does_not_is_refused(served: Served, authorization: str | None, era: Era) -> None:
    token = served.token
    forms = {"token": token, "first": token[:-1], "upper": token.swapcase()}
    sent = authorization and authorization.format(**forms)
    assert post(served, {"Authorization": sent}, era) == 401


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "PUT", "OPTIONS", "HEAD"])
def test_no_method_works_without_the_token(served: Served, method: str) -> None:
    wanted: dict[str, str | None] = {**served.good, "Authorization": None}
    assert send(served, method, b"", wanted)[0] == 401


@pytest.mark.parametrize("path", ["/", "/mcp?token={token}", "/mcp/../mcp", "/.well-known/x"])
def test_nothing_is_served_beside_the_one_path(served: Served, path: str) -> None:
    wanted: dict[str, str | None] = {**served.good, "Authorization": None}
    status, said = send(served, "GET", b"", wanted, path.format(token=served.token))
    assert status in (401, 404)
    assert served.token not in said


def test_a_refusal_does_not_send_clients_to_an_authorization_server(served: Served) -> None:
    wanted: dict[str, str | None] = {**served.good, "Authorization": None}
    for path in ("/.well-known/oauth-protected-resource/mcp", "/.well-known/openid-configuration"):
        assert send(served, "GET", b"", wanted, path)[0] == 404


@both_eras
@pytest.mark.parametrize("host", ["127.0.0.1:{port}", "localhost:{port}", "[::1]:{port}"])
def test_the_loopback_names_are_accepted(served: Served, host: str, era: Era) -> None:
    own = host.format(port=served.port)
    assert post(served, {"Host": own, "Origin": f"http://{own}"}, era) == 200


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", None])
def test_what_a_form_can_send_is_refused(served: Served, kind: str | None) -> None:
    assert post(served, {"Content-Type": kind}) == 400
    assert post(served, {"Content-Type": kind}, "auto") == 400


@pytest.mark.parametrize("session", ["0" * 32, "..", "x" * 500])
def test_a_made_up_session_id_opens_nothing(served: Served, session: str) -> None:
    assert post(served, {"Mcp-Session-Id": session}) == 404


# Who only knocks


def knock(served: Served, sent: bytes = b"POST /mcp HTTP/1.1\r\nX: ") -> socket.socket:
    """A connection that has said this much and no more."""
    knocking = socket.create_connection(("127.0.0.1", served.port), PATIENCE)
    knocking.sendall(sent)
    return knocking


def is_cut(knocking: socket.socket) -> bool:
    """Whether the server ends the connection; what it says before does not count."""
    with contextlib.suppress(ConnectionResetError):
        while knocking.recv(2**16):
            pass
    return True


def is_cut_though_it_trickles(knocking: socket.socket) -> bool:
    """Whether the server ends a connection on which one byte after the other comes."""
    knocking.settimeout(0.1)
    for _ in range(PATIENCE * 10):
        try:
            if not knocking.recv(2**16):
                return True
            knocking.sendall(b"x")
        except TimeoutError:
            with contextlib.suppress(ConnectionResetError, BrokenPipeError):
                knocking.sendall(b"x")
        except (ConnectionResetError, BrokenPipeError):
            return True
    return False


def request_of(served: Served, headers: dict[str, str | None], body: bytes = b"") -> bytes:
    """A whole request with a body, as bytes."""
    wanted = {**served.good, **headers, "Content-Length": str(len(body))}
    lines = [f"{name}: {value}" for name, value in wanted.items() if value is not None]
    return "\r\n".join(["POST /mcp HTTP/1.1", *lines, "", ""]).encode() + body


def test_a_refused_request_cannot_hold_its_connection_by_a_slow_body(tmp_path: Path) -> None:
    with serving(tmp_path / "data", limits=BRIEF) as served:
        sent = request_of(served, {"Authorization": None}, b" " * MOST_BODY)[:500]
        with knock(served, sent) as knocking:
            assert knocking.recv(12) == b"HTTP/1.1 401"
            assert is_cut_though_it_trickles(knocking)


def admitted(served: Served, body: bytes) -> socket.socket:
    """A connection whose request has shown the token and whose body is waited for."""
    head = request_of(served, {"Expect": "100-continue"}, body).removesuffix(body)
    owner = knock(served, head)
    assert owner.recv(2**10).startswith(b"HTTP/1.1 100")
    return owner


def test_who_has_shown_the_token_keeps_the_connection_while_a_request_lasts(
    tmp_path: Path,
) -> None:
    body = json.dumps(LEGACY).encode()
    with (
        serving(tmp_path / "data", limits=BRIEF) as served,
        admitted(served, body) as owner,
    ):
        with knock(served) as later:
            assert is_cut(later)
        owner.sendall(body)
        assert owner.recv(12) == b"HTTP/1.1 200"


def test_who_has_no_token_opens_no_session(served: Served) -> None:
    for _ in range(110):
        assert post(served, {"Authorization": None}) == 401
    assert post(served, {}) == 200


# What a client can do


@asynccontextmanager
async def talk_over_http(
    served: Served, era: Era, token: str | None = None
) -> AsyncGenerator[Talk]:
    headers = {"Authorization": f"Bearer {token or served.token}"}
    async with httpx2.AsyncClient(
        headers=headers, trust_env=False, verify=False, timeout=PATIENCE
    ) as http:
        url = f"http://127.0.0.1:{served.port}/mcp"
        transport = streamable_http_client(url, http_client=http)
        async with Client(transport, mode=era) as client:
            yield Talk(client)


@both_eras
async def test_a_client_records_compresses_and_recalls(tmp_path: Path, era: Era) -> None:
    with serving(tmp_path / "data") as served:
        async with talk_over_http(served, era) as chat:
            assert len((await chat.client.list_tools()).tools) == 7
            said = await chat.say("record_messages", messages=LONG, session="loop")
            assert f"recorded {len(LONG)} new" in said
            receipt = await chat.say("compress_context", session="loop", reason="done")
            assert receipt.startswith("c1 done: ")
            assert "m1 user" in await chat.say("recall_archived", refs="m1", session="loop")
            assert '"messages"' in await chat.read("loop/context")


@both_eras
async def test_every_call_names_its_session(tmp_path: Path, era: Era) -> None:
    calls: dict[str, dict[str, Any]] = {
        "record_messages": {"messages": LONG[:2]},
        "pin_constraint": {"text": "Never push."},
        "compress_context": {"reason": "done"},
        "context_stats": {},
        "recall_archived": {"query": "push"},
        "restore_context": {"ref": "c1"},
        "unpin_constraint": {"ref": "p1"},
    }
    with serving(tmp_path / "data") as served:
        async with talk_over_http(served, era) as chat:
            await chat.say("pin_constraint", text="Only staging.", session="mine")
            for tool, arguments in calls.items():
                assert 'pass session="NAME"' in await chat.fail(tool, **arguments), tool


@pytest.mark.thorough
@both_eras
async def test_a_session_of_another_project_is_not_readable(tmp_path: Path, era: Era) -> None:
    home = tmp_path / "data"
    with serving(home, "/theirs") as served:
        async with talk_over_http(served, era) as chat:
            await chat.say("record_messages", messages=LONG, session="secret")
            await chat.say("pin_constraint", text="Canary-7 rule.", session="secret")
            await chat.say("compress_context", reason="done", session="secret")
    with serving(home, "/ours") as served:
        async with talk_over_http(served, era) as chat:
            for tool, arguments in {
                "context_stats": {},
                "recall_archived": {"query": "limiter"},
                "compress_context": {"reason": "done"},
                "restore_context": {"ref": "c1"},
                "unpin_constraint": {"ref": "p1"},
            }.items():
                said = await chat.fail(tool, session="secret", **arguments)
                assert "Canary-7" not in said
            assert "secret" not in await chat.read("sessions")
            for path in ("context", "pinned", "digests", "messages/m1", "receipts/c1"):
                with pytest.raises(MCPError):
                    await chat.read(f"secret/{path}")
            with pytest.raises(MCPError):
                await chat.prompt("resume", session="secret")
            await chat.say("pin_constraint", text="Ours.", session="secret")
            assert "Canary-7" not in await chat.read("secret/pinned")


@both_eras
async def test_an_argument_over_the_limit_is_refused_by_name(served: Served, era: Era) -> None:
    async with talk_over_http(served, era) as chat:
        said = await chat.fail("pin_constraint", text="x" * (MOST_CHARS + 1), session="long")
        assert said.startswith("text: 65,537 characters, over the limit of 65,536.")
        with pytest.raises(MCPError, match="focus: "):
            await chat.prompt("compact", focus="x" * (MOST_CHARS + 1))
        with pytest.raises(MCPError, match="uri: "):
            await chat.read("x" * MOST_CHARS + "/pinned")


# It cannot be started unsafe


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "192.168.1.5", "box.lan", "localhost.evil"])
@pytest.mark.parametrize("more", [{}, {"allow_remote": True}, {"allowed_hosts": ("box.lan",)}])
def test_other_machines_are_kept_out(tmp_path: Path, host: str, more: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match="--allow-remote together with --allowed-host NAME"):
        serve_http(settings_of(tmp_path / "data"), "/one", {}, ServerAddress(host, 0, **more))
    with pytest.raises(SettingsError):
        build_app(
            settings_of(tmp_path / "data"), "/one", {}, ServerAddress(host=host, **more), "t" * 43
        )
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("name", ["*", "", "http://box.lan", "box.lan/x", "a b", "*:80", "box:x"])
def test_a_host_to_allow_is_a_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match=r"write it as box\.lan"):
        serve_http(settings_of(tmp_path), "/one", {}, ServerAddress("0.0.0.0", 0, (name,)))


async def test_the_names_asked_for_are_accepted_and_no_others(tmp_path: Path) -> None:
    door = ServerAddress("0.0.0.0", 80, ("box.lan", "box:1"), allow_remote=True)
    app = build_app(settings_of(tmp_path), "/one", {}, door, "t" * 43)

    async def status(host: str, origin: str = "") -> int:
        transport = httpx2.ASGITransport(app)
        headers = {"Host": host, "Authorization": "Bearer " + "t" * 43, **MODERN_HEADERS}
        headers |= {"Accept": "application/json, text/event-stream"}
        if origin:
            headers["Origin"] = origin
        async with httpx2.AsyncClient(transport=transport, base_url="http://x") as http:
            return (await http.post("/mcp", json=MODERN, headers=headers)).status_code

    async with app.router.lifespan_context(app):
        for host in ("box.lan", "box.lan:80", "box:1"):
            assert await status(host) == 200
        for host in ("127.0.0.1:80", "localhost", "box", "box.lan:81", "0.0.0.0"):
            assert await status(host) == 421
        assert await status("box.lan", "https://box.lan") == 403
        assert await status("box.lan", "http://box.lan") == 403


@pytest.mark.parametrize("token", ["", "short", "x" * 15])
def test_there_is_no_server_without_a_token(tmp_path: Path, token: str) -> None:
    with pytest.raises(SettingsError, match="protects nothing"):
        build_app(settings_of(tmp_path), "/one", {}, ServerAddress(), token)


def test_a_port_in_use_is_said(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=r"pass another --port, or 0"):
            serve_http(settings_of(tmp_path), "/one", {}, ServerAddress(port=port))
    with pytest.raises(InputError, match="is no port"):
        serve_http(settings_of(tmp_path), "/one", {}, ServerAddress(port=70_000))


# The token's file


@posix
@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
async def test_only_the_owner_can_read_what_is_made(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        home = tmp_path / "deep" / "home"
        with serving(home) as served:
            async with talk_over_http(served, "auto") as chat:
                await chat.say("record_messages", messages=LONG, session="loop")
            found = {path.name: stat.S_IMODE(path.stat().st_mode) for path in home.iterdir()}
            assert {"token", "store.db", "store.db-wal"} <= found.keys()
            assert set(found.values()) == {0o600}, found
            assert stat.S_IMODE(home.stat().st_mode) == 0o700
    finally:
        os.umask(before)


def test_the_token_is_made_once_and_kept(tmp_path: Path) -> None:
    first = ensure_token(tmp_path)
    assert len(first) >= 43
    assert ensure_token(tmp_path) == first
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["token"]


@posix
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o620, 0o602, 0o666, 0o777, 0o610])
def test_a_token_others_may_know_is_refused(tmp_path: Path, mode: int) -> None:
    ensure_token(tmp_path)
    token_path(tmp_path).chmod(mode)
    with pytest.raises(SettingsError, match=rf"mode {mode:03o}.* chmod 600 .*/token$"):
        ensure_token(tmp_path)


@pytest.mark.parametrize("content", ["", "\n", "   \n", "x" * 15, "x" * 15 + "\n"])
def test_a_token_that_protects_nothing_is_refused(tmp_path: Path, content: str) -> None:
    ensure_token(tmp_path)
    token_path(tmp_path).write_text(content)
    with pytest.raises(SettingsError, match=r"protects nothing.*: rm .*/token$"):
        ensure_token(tmp_path)


@posix
def test_a_token_of_another_user_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ensure_token(tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(SettingsError, match=r"belongs to another user.*: rm .*/token$"):
        ensure_token(tmp_path)


@posix
def test_only_a_plain_file_is_a_token(tmp_path: Path) -> None:
    path = token_path(tmp_path)
    (tmp_path / "elsewhere").write_text("t" * 43)
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SettingsError, match="is a link"):
        ensure_token(tmp_path)
    path.unlink()
    path.symlink_to(tmp_path / "nowhere")
    with pytest.raises(SettingsError, match="is a link"):
        ensure_token(tmp_path)
    path.unlink()
    os.mkfifo(path, 0o600)
    with pytest.raises(SettingsError, match="is not a file"):
        ensure_token(tmp_path)
    path.unlink()
    path.mkdir()
    with pytest.raises(SettingsError, match="is not a file"):
        ensure_token(tmp_path)


def test_a_home_that_is_a_file_is_said(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    with pytest.raises(StoreError, match="MCP_COMPACTION_HOME"):
        ensure_token(tmp_path / "data")


# The process

PROCESS = """
import logging, os, sys
from mcp_compaction.server.http import ServerAddress, serve_http
from mcp_compaction.settings import load_settings
logging.basicConfig(level=logging.DEBUG, stream=sys.stderr)
code = serve_http(load_settings(os.environ), "/one", os.environ, ServerAddress(port=0))
sys.stderr.write(f"ended with {code}\\n")
raise SystemExit(code)
"""


@contextlib.contextmanager
def process(home: Path) -> Generator[tuple[subprocess.Popen[str], Served]]:
    environ = {"MCP_COMPACTION_HOME": str(home), "PATH": os.environ["PATH"], **SMALL}
    running = subprocess.Popen(
        [sys.executable, "-c", PROCESS],
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert running.stderr is not None
    assert running.stdout is not None
    try:
        port = _port(running)
        yield running, Served(port, home, token_path(home).read_text().strip())
    finally:
        running.kill()
        running.wait(PATIENCE)
        running.stderr.close()
        running.stdout.close()


def _port(running: subprocess.Popen[str]) -> int:
    assert running.stderr is not None
    for line in running.stderr:
        if line.startswith("mcp-compaction serves http://127.0.0.1:"):
            return int(line.rsplit(":", 1)[1].split("/")[0])
    raise AssertionError("it never said where it serves")


@posix
@pytest.mark.parametrize(
    "ask", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.thorough)]
)
async def test_a_signal_ends_it_in_order_and_the_token_is_never_said(
    tmp_path: Path, ask: signal.Signals
) -> None:
    home = tmp_path / "data"
    with process(home) as (running, served):
        post(served, {"Authorization": "Bearer wrong"})
        post(served, {"Origin": "null"})
        with contextlib.suppress(MCPError, ExceptionGroup, httpx2.HTTPError):
            async with talk_over_http(served, "legacy") as chat:
                await chat.say("record_messages", messages=LONG, session="loop")
                # The stream a client of the handshake era holds open must not hold up the end.
                running.send_signal(ask)
                await asyncio.to_thread(running.wait, PATIENCE)
        assert running.wait(PATIENCE) == 0
        assert running.stderr is not None
        assert running.stdout is not None
        said = running.stderr.read() + running.stdout.read()
    assert "ended with 0" in said
    assert "Traceback" not in said
    assert served.token not in said
    assert "Bearer wrong" not in said
    # A closed store has folded its log in.
    assert not (home / "store.db-wal").exists()
