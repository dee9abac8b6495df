"""The server as a process: it leaves with its host, stays when it should, and answers all."""

from __future__ import annotations

import json
import os
import random
import select
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import pytest
from mcp import Client, StdioServerParameters
from mcp.types import TextContent

from mcp_compaction.server.stdio import serve_stdio
from mcp_compaction.server.wire import Wire
from tests.server.fuzzing import mangled
from tests.server.host import (
    PATIENCE,
    ROOT,
    TOY,
    Host,
    call,
    modern,
    opening,
    request,
    toy,
    wait_for,
)

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.thorough,
    pytest.mark.skipif(sys.platform == "win32", reason="pipes and signals of POSIX"),
]

STATES = {"idle": None, "async tool": "nap", "thread tool": "block"}
ASKED = ["EOF", "SIGTERM", "SIGINT", "SIGHUP"]
LEFT_ALONE = ["host SIGKILL", "leaked pipe", "sh wrapper"]


def pairs_of(ways: list[str]) -> pytest.MarkDecorator:
    """Every way with every state; each way and each state is in the plain run at least once."""
    states = list(STATES)
    return pytest.mark.parametrize(
        ("way", "state"),
        [
            (way, state)
            if state == states[number % len(states)]
            else pytest.param(way, state, marks=pytest.mark.slow)
            for number, way in enumerate(ways)
            for state in states
        ],
    )


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a toy finish its cleaning up; how soon it does is for benchmarks/waits.py to tell."""
    monkeypatch.setenv("TOY_CLEANUP", str(PATIENCE))


@pytest.fixture
def marks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """The files by which the toy tells that a tool has begun, and that it has cleaned up."""
    files = {name: tmp_path / name for name in ("TOY_STARTED", "TOY_CLOSED")}
    for name, path in files.items():
        monkeypatch.setenv(name, str(path))
    return files


def end(host: Host, way: str) -> None:
    if way == "EOF":
        host.close_stdin()
    else:
        host.process.send_signal(getattr(signal, way))


@pairs_of(ASKED)
def test_it_cleans_up_and_leaves_when_asked(way: str, state: str, marks: dict[str, Path]) -> None:
    with toy() as host:
        host.greet()
        if tool := STATES[state]:
            host.send(call(1, tool))
            wait_for(marks["TOY_STARTED"])
        end(host, way)
        assert host.process.wait(PATIENCE) == 0
    assert marks["TOY_CLOSED"].exists()


@contextmanager
def doomed(way: str, tool: str | None) -> Generator[tuple[subprocess.Popen[bytes], int]]:
    life, held = os.pipe()
    messages = [*opening(), *([call(1, tool)] if tool else [])]
    script = str(Path(__file__).with_name("doomed.py"))
    host = subprocess.Popen(
        [sys.executable, "-I", script, way, str(held), *map(json.dumps, messages)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        pass_fds=(held,),
    )
    os.close(held)
    sibling = 0
    with host:
        try:
            assert host.stdout
            sibling = int(host.stdout.readline())
            yield host, life
        finally:
            host.kill()
            os.close(life)
            if sibling:
                os.kill(sibling, signal.SIGKILL)


@pairs_of(LEFT_ALONE)
def test_it_cleans_up_and_leaves_when_its_host_is_killed(
    way: str, state: str, marks: dict[str, Path]
) -> None:
    tool = STATES[state]
    with doomed(way, tool) as (host, life):
        if tool:
            wait_for(marks["TOY_STARTED"])
        host.kill()
        # Whoever holds the other end of this pipe is a server that is still there.
        assert select.select([life], [], [], PATIENCE)[0]
        assert os.read(life, 1) == b""
    assert marks["TOY_CLOSED"].exists()


def test_it_leaves_when_only_its_broken_stdout_tells_of_the_end(marks: dict[str, Path]) -> None:
    with doomed("sh wrapper, leaked pipe", None) as (host, life):
        host.kill()
        assert select.select([life], [], [], PATIENCE)[0]
    assert marks["TOY_CLOSED"].exists()


@pytest.mark.parametrize("way", ["EOF", pytest.param("SIGTERM", marks=pytest.mark.slow)])
def test_it_leaves_even_when_a_tool_holds_the_event_loop(
    way: str, marks: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TOY_CLEANUP")  # nothing can be cleaned up: its time is all there is
    with toy() as host:
        host.greet()
        host.send(call(1, "hog"))
        wait_for(marks["TOY_STARTED"])
        end(host, way)
        assert host.process.wait(PATIENCE) == 0


@pytest.mark.parametrize("way", ["EOF", pytest.param("SIGTERM", marks=pytest.mark.slow)])
def test_it_leaves_while_it_is_still_starting(way: str) -> None:
    with toy(stderr=subprocess.PIPE) as host:
        assert host.process.stderr
        assert b"at import" in host.process.stderr.readline()
        end(host, way)
        assert host.process.wait(PATIENCE) == 0


def test_it_leaves_a_host_that_no_longer_listens(marks: dict[str, Path]) -> None:
    with toy() as host:
        host.greet()
        host.close_stdout()
        host.send(call(1, "echo", text="anyone?"))
        assert host.process.wait(PATIENCE) == 0
    assert marks["TOY_CLOSED"].exists()


def test_a_host_that_sends_all_and_closes_gets_all_its_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TOY_FINISHING", str(PATIENCE))
    messages = [*opening(), call(1, "echo", text="one"), call(2, "chatter"), request(3, "ping")]
    sent = "\n".join(map(json.dumps, messages))
    done = subprocess.run(
        TOY,
        input=sent,
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        timeout=PATIENCE,
        check=True,
    )
    replies = [json.loads(line) for line in done.stdout.splitlines()]
    assert sorted(str(reply["id"]) for reply in replies) == ["1", "2", "3", "hello"]
    assert all("result" in reply for reply in replies)


def test_it_stays_with_a_quiet_host() -> None:
    with toy() as host:
        host.greet()
        with pytest.raises(subprocess.TimeoutExpired):
            host.process.wait(2.5)
        host.is_well()
        for number in (signal.SIGWINCH, signal.SIGSTOP, signal.SIGCONT, signal.SIGURG):
            host.process.send_signal(number)
        host.is_well()


def test_it_stays_with_a_host_that_writes_piecemeal() -> None:
    with toy() as host:
        host.greet()
        for byte in json.dumps(call(1, "echo", text="in bytes")).encode() + b"\n":
            host.write(bytes([byte]))
        assert "result" in host.reply_to(1)
        long = json.dumps(call(2, "echo", text="x" * 5_000_000)).encode() + b"\n"
        for at in range(0, len(long), 997):
            host.write(long[at : at + 997])
        assert len(host.reply_to(2)["result"]["content"][0]["text"]) == 5_000_000
        host.write(b'{"jsonrpc": "2.0", "id": 3,')
        with pytest.raises(subprocess.TimeoutExpired):
            host.process.wait(0.6)
        host.write(b'"method": "ping"}\n')
        assert "result" in host.reply_to(3)


def test_it_stays_with_a_host_that_reads_late() -> None:
    with toy() as host:
        host.greet()
        host.send(*(call(id, "echo", text="y" * 300_000) for id in range(5)))
        with pytest.raises(subprocess.TimeoutExpired):
            host.process.wait(1.2)
        assert sorted(host.receive()["id"] for _ in range(5)) == [0, 1, 2, 3, 4]
        host.is_well()


def test_cancelling_a_call_ends_the_call_alone(marks: dict[str, Path]) -> None:
    def cancel(id: int) -> dict[str, Any]:
        return {
            "jsonrpc": "2.0",
            "method": "notifications/cancelled",
            "params": {"requestId": id},
        }

    with toy() as host:
        host.greet()
        host.send(call(1, "nap"))
        wait_for(marks["TOY_STARTED"])
        host.send(cancel(1))
        host.is_well()
        host.send(cancel(1), cancel(99))
        host.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {}})
        host.is_well()
        marks["TOY_STARTED"].unlink()
        host.send(call(2, "block"))
        wait_for(marks["TOY_STARTED"])
        host.send(cancel(2))
        host.is_well()
        host.close_stdin()
        assert host.process.wait(PATIENCE) == 0
    assert marks["TOY_CLOSED"].exists()


def test_stdout_carries_the_protocol_alone() -> None:
    with toy(stderr=subprocess.PIPE) as host:
        host.send(*opening(), call(1, "chatter"), call(2, "chatter"), call(3, "no such tool"))
        host.write(b"not json\n")
        host.send(call(4, "broken"), request(5, "tools/list"))
        replies = [host.receive() for _ in range(7)]
        host.close_stdin()
        assert host.process.stdout
        assert host.process.stderr
        assert host.process.stdout.read() == b""
        noise = host.process.stderr.read()
    assert {reply["id"] for reply in replies} == {"hello", 1, 2, 3, 4, 5, None}
    assert all(reply["jsonrpc"] == "2.0" for reply in replies)
    # A reply that is no text is repaired on its way out.
    assert "half \ufffd" in json.dumps(replies, ensure_ascii=False)
    for where in ("at import", "print", "stdout", "descriptor 1", "warning", "child ''", "shell"):
        assert f"noise: {where}".encode() in noise


def test_a_line_too_long_is_refused_without_being_kept() -> None:
    message = call(1, "echo", text="z" * 70 * 1024 * 1024)
    # Where the hosts written in TypeScript have it.
    message["id"] = message.pop("id")
    with toy() as host:
        host.greet()
        before = _resident(host.process.pid)
        host.send(message)
        assert "longer than" in host.reply_to(1)["error"]["message"]
        assert _resident(host.process.pid) < before + 50_000
        host.is_well()


def _resident(pid: int) -> int:
    """Kilobytes in memory, where the system tells."""
    status = Path(f"/proc/{pid}/status")
    if not status.exists():
        return 0
    line = next(line for line in status.read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1])


@pytest.mark.parametrize("era", ["handshake", "modern"])
def test_every_line_is_answered_and_the_server_lives(era: str) -> None:
    rng = random.Random(f"lines of the {era} era")
    dress = modern if era == "modern" else dict[str, Any]
    with toy() as host:
        if era == "handshake":
            host.greet()
        else:
            host.send(modern(request("hello", "server/discover")))
            assert "2026-07-28" in host.reply_to("hello")["result"]["supportedVersions"]
        for id in range(1, 201):
            params = {
                **dress(request(0, "x"))["params"],
                "name": "echo",
                "arguments": {"text": "t"},
            }
            fields = {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}
            expected, line = mangled(rng, id, json.dumps(fields).encode())
            host.write(line + b"\n")
            reply = host.receive()
            assert reply["id"] == expected, line[:200]
            assert "result" in reply or reply["error"]["message"]
        host.send(dress(request("list", "tools/list")))
        assert len(host.reply_to("list")["result"]["tools"]) == 6


def test_a_server_that_cannot_be_built_says_so() -> None:
    def build() -> NoReturn:
        raise LookupError("no such store")

    source, sink = os.pipe()
    wire = Wire(source, sink, lambda: None)
    with pytest.raises(LookupError, match="no such store"):
        serve_stdio(wire, build)
    assert not wire.over
    os.close(source)
    os.close(sink)


@pytest.mark.parametrize(("mode", "version"), [("auto", "2026-07-28"), ("legacy", "2025-11-25")])
async def test_the_sdk_client_is_served_in_both_eras(mode: Any, version: str) -> None:
    parameters = StdioServerParameters(command=TOY[0], args=TOY[1:], cwd=ROOT, env=dict(os.environ))
    async with Client(parameters, mode=mode) as client:
        assert client.protocol_version == version
        result = await client.call_tool("echo", {"text": "hello"})
        assert result.content == [TextContent(type="text", text="hello")]
