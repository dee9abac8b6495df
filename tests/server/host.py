"""A host for the toy: talks JSON-RPC to it over pipes and can tell when it is gone."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
TOY = [sys.executable, "-m", "tests.server.toy"]
PATIENCE = (
    120.0  # seconds; only a net, since what is waited for comes or the test has found a fault
)

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "host", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
HELLO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "host", "version": "1"},
}


def request(id: Any, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
    """A request as the handshake era has it."""
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params or {}}


def call(id: Any, tool: str, **arguments: Any) -> dict[str, Any]:
    """A tool call as the handshake era has it."""
    return request(id, "tools/call", {"name": tool, "arguments": arguments})


def modern(message: dict[str, Any]) -> dict[str, Any]:
    """The same request as the 2026-07-28 era has it."""
    return {**message, "params": {**message["params"], "_meta": META}}


def opening() -> list[dict[str, Any]]:
    """What a host of the handshake era sends first."""
    ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    return [request("hello", "initialize", HELLO), ready]


def wait_for(path: Path) -> None:
    """Return once the file is there."""
    deadline = time.monotonic() + PATIENCE
    while not path.exists():
        assert time.monotonic() < deadline, f"{path.name} never came"
        time.sleep(0.005)


class Host:
    """One end of the pipes of a started toy."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin
        assert process.stdout
        self.process = process
        self._in = process.stdin
        self._out = process.stdout.fileno()
        self._rest = b""

    def write(self, data: bytes) -> None:
        """Send bytes as they are."""
        self._in.write(data)
        self._in.flush()

    def send(self, *messages: dict[str, Any]) -> None:
        """Send each message as a line."""
        self.write(b"".join(json.dumps(message).encode() + b"\n" for message in messages))

    def line(self) -> bytes:
        """The next line from the toy."""
        while b"\n" not in self._rest:
            assert select.select([self._out], [], [], PATIENCE)[0], "no line came"
            chunk = os.read(self._out, 1 << 20)
            assert chunk, "the toy closed its stdout"
            self._rest += chunk
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def receive(self) -> dict[str, Any]:
        """The next message from the toy."""
        return json.loads(self.line())

    def receive_within(self, seconds: float) -> dict[str, Any] | None:
        """The next message from the toy if it begins to come in that time."""
        if b"\n" in self._rest or select.select([self._out], [], [], seconds)[0]:
            return self.receive()
        return None

    def reply_to(self, id: Any) -> dict[str, Any]:
        """The reply with this id; whatever comes before it is dropped."""
        while True:
            reply = self.receive()
            if reply.get("id") == id:
                return reply

    def greet(self) -> None:
        """Open the connection as a host of the handshake era."""
        self.send(*opening())
        self.reply_to("hello")

    def is_well(self) -> None:
        """The toy still answers a call."""
        self.send(call("well", "echo", text="ö"))
        assert self.reply_to("well")["result"]["content"][0]["text"] == "ö"

    def close_stdin(self) -> None:
        """End the toy's input."""
        self._in.close()

    def close_stdout(self) -> None:
        """Stop listening."""
        assert self.process.stdout
        self.process.stdout.close()


@contextmanager
def toy(
    *,
    command: list[str] = TOY,
    env: dict[str, str] | None = None,
    stderr: int | None = subprocess.DEVNULL,
    pass_fds: tuple[int, ...] = (),
) -> Generator[Host]:
    """A toy that is gone when the block ends, one way or the other."""
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, **(env or {})},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        pass_fds=pass_fds,
    )
    with process:
        try:
            yield Host(process)
        finally:
            process.kill()
