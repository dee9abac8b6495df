"""Examples ask a real API where there is a key: here a strict server on loopback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from threading import Thread
from typing import Any, cast

import pytest

from tests.checkers import problems
from tests.documents import ROOT

pytestmark = pytest.mark.thorough

CALLS = 3  # of the example's own tool, before the model ends
OWN: dict[str, dict[str, Any]] = {  # the tools of the examples, and what they are asked for
    "read": {"path": "orders_2.sql"},
    "read_source": {"number": 1},
    "ask_leave_desk": {"employee": "37"},
}


class MessagesApi(ThreadingHTTPServer):
    """A server that speaks the Messages API, and refuses what that refuses."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Door)
        self.requests: list[dict[str, Any]] = []
        self.faults: list[str] = []
        self.calls = 0

    def answer(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        """The blocks of the next answer."""
        self.requests.append(body)
        self.faults += problems(body["messages"], "anthropic")
        names = [tool["name"] for tool in body.get("tools", ()) if tool["name"] in OWN]
        done = [{"type": "text", "text": "All done."}]
        if not names:  # a sub-agent's request
            return done
        self.calls = (self.calls + 1) % (CALLS + 1)
        if not self.calls:
            return done
        id = f"toolu_{len(self.requests)}"
        return [{"type": "tool_use", "id": id, "name": names[0], "input": OWN[names[0]]}]


class Door(BaseHTTPRequestHandler):
    """Takes one request."""

    def do_POST(self) -> None:
        """Answer a request for a message."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        api = cast("MessagesApi", self.server)
        content = api.answer(body)
        is_call = content[0]["type"] == "tool_use"
        message = {
            "id": f"msg_{len(api.requests)}",
            "type": "message",
            "role": "assistant",
            "model": body["model"],
            "content": content,
            "stop_reason": "tool_use" if is_call else "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": len(str(body)) // 4, "output_tokens": 20},
        }
        answer = json.dumps(message).encode()
        # Versions of the SDK differ in the header that carries the key.
        key = f"{self.headers['x-api-key']} {self.headers['authorization']}"
        is_known = self.path == "/v1/messages" and "for-a-test" in key
        self.send_response(200 if is_known else 401)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@contextmanager
def serve_messages_api() -> Generator[MessagesApi]:
    with MessagesApi() as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.mark.parametrize(
    ("program", "asked", "shown"),
    [
        ("own_loop/own_loop.py", CALLS + 1, "4 requests, the largest of "),
        ("personal_assistant/assistant.py", 4, "  -> All done."),
        ("researcher/researcher.py", CALLS + 1, "harbor: DONE after 0 compactions: All done."),
        pytest.param(
            "langgraph_supervisor/supervisor.py",
            20 * (1 + 2 * CALLS),
            "the rule is in the history: True",
            marks=pytest.mark.skipif(
                find_spec("langchain_anthropic") is None, reason="langchain-anthropic is missing"
            ),
        ),
    ],
)
def test_an_example_with_a_key_asks_the_api_and_is_understood(
    program: str, asked: int, shown: str
) -> None:
    with serve_messages_api() as api:
        env = {
            **{k: v for k, v in os.environ.items() if not k.startswith("ANTHROPIC_")},
            "ANTHROPIC_API_KEY": "for-a-test",
            "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{api.server_port}",
            "ANTHROPIC_MODEL": "the-model-named",
        }
        script = ROOT / "examples" / program
        done = subprocess.run(
            [sys.executable, str(script)],
            capture_output=True,
            text=True,
            check=False,
            env=env,
            timeout=300,
        )
    assert done.returncode == 0, done.stderr
    assert shown in done.stdout
    assert api.faults == []
    assert len(api.requests) == asked
    assert {request["model"] for request in api.requests} == {"the-model-named"}
