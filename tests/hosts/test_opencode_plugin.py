"""The plugin that runs in opencode, in a JavaScript engine without opencode."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
from collections.abc import Generator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from mcp_compaction import compactor
from mcp_compaction.compactor.results import PinWish
from mcp_compaction.model import Ask
from mcp_compaction.settings import load_settings
from mcp_compaction.wiring import open_workspace
from tests.hosts.live import PROGRAM

NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(NODE is None, reason="node is not on the path")

PLUGIN = files("mcp_compaction.hosts.opencode").joinpath("plugin.js")
_FIRST_REQUEST = """
import { Compaction } from "./plugin.mjs"
const hooks = await Compaction({ directory: "/shop" })
const config = { mcp: { compaction: { command: ["mcp-compaction", "serve"], enabled: %s } } }
await hooks.config(config)
const info = { id: "msg_1", sessionID: "ses_1", role: "user" }
const output = { messages: [{ info, parts: [{ type: "text", text: "Go on." }] }] }
const sent = hooks["experimental.chat.messages.transform"]({}, output)
console.log(config.mcp.compaction.environment.MCP_COMPACTION_VIEWS)  // before the server is there
await sent
console.log(JSON.stringify(output.messages.map((message) => message.parts[0].text)))
"""


_WHOLE_PROCESS = """
import { spawn } from "node:child_process"
import { Compaction } from "./plugin.mjs"
const hooks = await Compaction({ directory: "/shop" })
const server = { command: [%s, "serve"] }
await hooks.config({ mcp: { compaction: server } })
const [first, ...rest] = server.command
const env = { ...process.env, ...server.environment }
const ours = spawn(first, rest, { env, stdio: ["pipe", "ignore", "ignore"] })
const say = (id, role, ...parts) => ({ info: { id, sessionID: "ses_1", role }, parts })
const state = { status: "completed", input: {}, output: "a row of the table\\n".repeat(4000) }
const output = { messages: [
  say("msg_1", "user", { type: "text", text: "Read the table." }),
  say("msg_2", "assistant", { type: "tool", tool: "read", callID: "c1", state }),
  say("msg_3", "user", { type: "text", text: "Go on." }),
] }
await hooks["experimental.chat.messages.transform"]({}, output)
ours.stdin.end()
console.log(JSON.stringify(output.messages))
"""


@contextmanager
def served_view(shown: str) -> Generator[str]:
    """The address of a server that gives one view: a text in place of what was said."""

    class Views(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            view = {"show": [{"role": "user", "text": shown}]}
            told = json.dumps({**view, "quiet": [], "inputs": {}, "outputs": {}}).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(told)))
            self.end_headers()
            self.wfile.write(told)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Views) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


def send_first_request(folder: Path, url: str, *, is_enabled: bool) -> list[str]:
    """What a process sends first, whose server tells where it is a moment after it is asked."""
    (folder / "plugin.mjs").write_text(PLUGIN.read_text(encoding="utf-8"), encoding="utf-8")
    script = folder / "run.mjs"
    script.write_text(_FIRST_REQUEST % json.dumps(is_enabled), encoding="utf-8")
    command = [str(NODE), str(script)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        place = Path(process.stdout.readline().strip())
        fresh = place.with_name("fresh")
        with suppress(FileNotFoundError):  # a process that waits for nothing may be gone by now
            told = {"url": url, "token": "secret", "limit_ms": 30_000}
            fresh.write_text(json.dumps(told), encoding="utf-8")
            fresh.rename(place)
        return json.loads(process.stdout.readline())


def test_the_first_request_of_a_process_waits_for_the_view(tmp_path: Path) -> None:
    with served_view("[pinned: …] Never push to main.") as url:
        sent = send_first_request(tmp_path, url, is_enabled=True)
    assert sent == ["[pinned: …] Never push to main."]


def test_where_our_server_is_switched_off_nothing_is_waited_for(tmp_path: Path) -> None:
    with served_view("a view") as url:
        assert send_first_request(tmp_path, url, is_enabled=False) == ["Go on."]


@pytest.mark.thorough
def test_pins_and_what_was_compressed_hold_in_the_first_request_of_every_process(
    tmp_path: Path,
) -> None:
    environ = {"HOME": str(tmp_path), "MCP_COMPACTION_PROJECT": str(tmp_path)}
    environ |= {"PATH": os.environ["PATH"], "MCP_COMPACTION_COUNTER": "estimate"}
    environ |= {"MCP_COMPACTION_VIEW_TIMEOUT_SECONDS": "60"}  # however busy the machine is

    def run_process() -> str:
        (tmp_path / "plugin.mjs").write_text(PLUGIN.read_text(encoding="utf-8"), encoding="utf-8")
        script = tmp_path / "run.mjs"
        script.write_text(_WHOLE_PROCESS % json.dumps(PROGRAM), encoding="utf-8")
        command = [str(NODE), str(script)]
        return subprocess.run(
            command, env=environ, check=True, capture_output=True, text=True
        ).stdout

    assert len(run_process()) > 60_000
    asyncio.run(pin_and_compress(environ))
    for _ in range(2):
        sent = run_process()
        assert sent.count("Never push to main.") == 1
        assert "Go on." in sent
        assert len(sent) < 30_000


async def pin_and_compress(environ: dict[str, str]) -> None:
    """Pin a rule in the chat and make its window smaller, as its agent does."""
    work = await open_workspace(load_settings(environ))
    try:
        info = await work.store.find_host_session(os.path.realpath(environ["HOME"]), "ses_1")
        assert info is not None
        await compactor.pin(work, info, PinWish("Never push to main.", by="user"))
        await compactor.compress(work, info, Ask(reason="read", force=True, target_percent=1))
    finally:
        await work.store.close()
