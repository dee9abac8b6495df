"""The bench with a real model, run on loopback against a stand-in that knows what it was sent."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from tests.documents import ROOT

PROGRAM = ROOT / "examples/live_bench/live_bench.py"
VALUES = re.compile(r"port \d+|build is \w+|/srv/[\w./-]+|db-\d-primary")


class StandIn(BaseHTTPRequestHandler):
    """Answers with the values that stand in a request; a summary is what came first."""

    def do_POST(self) -> None:
        """Answer one request."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        said = "\n".join(
            one["content"] if isinstance(one["content"], str) else json.dumps(one["content"])
            for one in body["messages"]
        )
        last = str(body["messages"][-1]["content"])
        if "Summarize our work" in last:
            text = said[:600]
        elif "three values" in last:
            text = "\n".join(VALUES.findall(said))
        else:
            text = "It is read."
        usage = {"input_tokens": len(said) // 4, "output_tokens": len(text) // 4}
        answer = json.dumps({"content": [{"type": "text", "text": text}], "usage": usage}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextmanager
def stand_in() -> Generator[str]:
    """The address of a stand-in that runs until the end of the block."""
    with ThreadingHTTPServer(("127.0.0.1", 0), StandIn) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.thorough
def test_values_of_the_beginning_are_in_the_request_after_three_compactions() -> None:
    environ = {**os.environ, "ANTHROPIC_API_KEY": "for-a-test"}
    with stand_in() as url:
        words = [sys.executable, str(PROGRAM), "--upstream", url, "--tasks", "2"]
        ran = subprocess.run(words, env=environ, capture_output=True, text=True, check=True)
    assert "mcp-compaction   solved 2 of 2   values 8 of 8" in ran.stdout
    assert "own summaries" in ran.stdout


@pytest.mark.thorough
def test_without_a_key_nothing_is_asked() -> None:
    environ = {name: value for name, value in os.environ.items() if name != "ANTHROPIC_API_KEY"}
    words = [sys.executable, str(PROGRAM)]
    ran = subprocess.run(words, env=environ, capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert "set ANTHROPIC_API_KEY" in ran.stderr
