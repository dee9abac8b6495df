"""Strangers who connect to a gateway, and its end: neither holds up the host."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx2
import pytest

from mcp_compaction.door import ConnectionLimits, open_listener, serve
from mcp_compaction.gateway.app import Gateway
from mcp_compaction.gateway.starting import GatewayAddress, make_secret
from mcp_compaction.store.connect import store_path
from mcp_compaction.store.lockfile import LockFile
from tests.gateway.upstream import Asked, provide, write_whole
from tests.hosts.live import PROGRAM

LONGEST_END = 5.0  # seconds, of which a busy machine may take three

unix_only = pytest.mark.skipif(sys.platform == "win32", reason="there are no such limits, signals")


def _knock(port: int, said: bytes = b"G") -> socket.socket:
    """A connection that asks for nothing yet."""
    connection = socket.create_connection(("127.0.0.1", port), 10)
    connection.sendall(said)
    return connection


@pytest.mark.anyio
async def test_one_connection_too_many_is_told_so() -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def wait(_: Asked, writer: asyncio.StreamWriter) -> None:
        begun.set()
        await go_on.wait()
        write_whole(writer, b"{}")

    async with provide(wait) as provider:
        with open_listener() as listener:
            address = GatewayAddress(listener.getsockname()[1], make_secret())
            gateway = Gateway(address, {"api": provider.url})
            url = address.url_of("api") + "/v1/messages"
            async with (
                serve(gateway, listener, ConnectionLimits(admitted=1)),
                httpx2.AsyncClient(trust_env=False, timeout=60) as client,
            ):
                first = asyncio.create_task(client.post(url, content=b"{}"))
                await begun.wait()
                second = await client.post(url, content=b"{}")
                go_on.set()
                assert (await first).status_code == 200
    assert second.status_code == 503
    assert "close one, or ask again later" in second.text


@contextmanager
def _gateway_process(home: Path, *before: str) -> Generator[tuple[subprocess.Popen[str], str]]:
    """A gateway in a process of its own, and its base URL."""
    command = [PROGRAM, "gateway", "--upstream", "http://127.0.0.1:1", "--json"]
    with subprocess.Popen(
        [*before, *command, "--home", str(home)],
        cwd=home,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            yield process, json.loads(process.stdout.readline())["base_url"]
        finally:
            process.kill()


@unix_only
def test_a_gateway_with_few_files_outlives_a_crowd_in_silence(tmp_path: Path) -> None:
    few = ("sh", "-c", 'ulimit -n 256; exec "$@"', "sh")
    with _gateway_process(tmp_path, *few) as (process, url), ExitStack() as closing:
        port = httpx2.URL(url).port
        assert port is not None
        for _ in range(400):
            closing.enter_context(_knock(port))
        with httpx2.Client(trust_env=False, timeout=60) as client:
            answer = client.post(f"{url}/v1/messages", content=b"{}")
        assert answer.status_code == 502  # of a provider that is not there: the gateway is
        process.send_signal(signal.SIGTERM)
        assert process.wait(LONGEST_END) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""


@unix_only
def test_those_who_were_cut_are_told_at_the_end(tmp_path: Path) -> None:
    command = [PROGRAM, "gateway", "--upstream", "http://127.0.0.1:1", "--home", str(tmp_path)]
    with (
        subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process,
        ExitStack() as closing,
    ):
        assert process.stdout is not None
        url = process.stdout.readline().rpartition(" ")[2].strip()
        port = httpx2.URL(url).port
        assert port is not None
        for _ in range(100):
            closing.enter_context(_knock(port))
        with httpx2.Client(trust_env=False, timeout=60) as client:
            client.get(url)
        process.send_signal(signal.SIGTERM)
        assert "connections cut that asked for nothing in time: 3" in process.stdout.read()


BODY = {
    "model": "m",
    "tools": [{"name": "Read"}],
    "messages": [{"role": "user", "content": "Hi."}],
}


@pytest.mark.thorough
@unix_only
def test_a_gateway_ends_soon_also_while_the_store_is_locked(tmp_path: Path) -> None:
    subprocess.run([PROGRAM, "sessions", "--home", str(tmp_path)], check=True, capture_output=True)
    lock = LockFile(store_path(tmp_path))
    with lock.hold(10), _gateway_process(tmp_path) as (process, url):
        with httpx2.Client(trust_env=False, timeout=60) as client:
            headers = {"x-claude-code-session-id": "chat-1"}
            client.post(f"{url}/v1/messages", json=BODY, headers=headers)
        process.send_signal(signal.SIGTERM)
        assert process.wait(LONGEST_END) == 0
    lock.close()


HOST = """\
import json, os, signal, sys, urllib.request
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
url = os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages"
headers = {"x-claude-code-session-id": "chat-1", "content-type": "application/json"}
try:
    urllib.request.urlopen(urllib.request.Request(url, sys.argv[-1].encode(), headers)).read()
except OSError:
    pass
print("here", flush=True)
signal.pause()
"""


@pytest.mark.thorough
@unix_only
def test_run_ends_soon_after_a_signal_also_while_the_store_is_locked(tmp_path: Path) -> None:
    host, store = tmp_path / "claude", tmp_path / "store"
    host.write_text(f"#!{sys.executable}\n{HOST}", encoding="utf-8")
    host.chmod(0o755)
    store.mkdir()
    subprocess.run([PROGRAM, "sessions", "--home", str(store)], check=True, capture_output=True)
    lock = LockFile(store_path(store))
    environ = {**os.environ, "ANTHROPIC_BASE_URL": "http://127.0.0.1:1"}
    command = [PROGRAM, "run", "--home", str(store), "--", str(host), json.dumps(BODY)]
    with (
        lock.hold(10),
        subprocess.Popen(
            command, cwd=tmp_path, env=environ, stdout=subprocess.PIPE, text=True
        ) as process,
    ):
        assert process.stdout is not None
        assert process.stdout.readline() == "here\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(LONGEST_END) == 0
    lock.close()
