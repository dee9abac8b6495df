"""A model's endpoint on loopback: the Messages API and chat completions, well-behaved or not."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal, cast

from mcp_compaction.core.tokens import estimate

Behavior = Literal[
    "ok",
    "json",
    "401",
    "429",
    "429 for long",
    "500",
    "529",
    "killed",
    "silence",
    "truncated JSON",
    "refusal",
    "prose",
    "ten times",
    "empty",
    "cut silently",
    "garbage",
    "wrong type",
    "trickle",
    "leak",
    "redirect",
]

DIGEST = """\
Here is the digest.

## PROGRESS
- The limiter was read and changed step by step, and its tests were run. (m2)
**NEXT STEPS:**
- Look at the limiter's tests once more. [m4]
UNCERTAIN
- none
"""
PROSE = "The agent looked at a rate limiter for a while and everything went more or less well."
EXCUSE = "I'm sorry, but I can't help with summarizing this conversation."


@dataclass(frozen=True, slots=True)
class Asked:
    """One request as it came over the wire."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def prompt(self) -> tuple[str, str]:
        """Its system part and its user part."""
        messages = cast(list[dict[str, str]], self.body["messages"])
        system = cast(str, self.body.get("system", "")) or messages[0]["content"]
        return system, messages[-1]["content"]


@dataclass(slots=True)
class Endpoint:
    """The server as a test sees it: what it is to do, what it was asked."""

    port: int
    script: list[Behavior]  # one for each request; the last one stays
    answer: Callable[[Asked], str] = lambda _: DIGEST
    asked: list[Asked] = field(default_factory=list[Asked])
    has_come: threading.Event = field(default_factory=threading.Event)
    has_gone: threading.Event = field(default_factory=threading.Event)  # a client hung up
    is_over: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def url(self) -> str:
        """Where it is; chat completions live under /v1."""
        return f"http://127.0.0.1:{self.port}"

    def note(self, asked: Asked) -> Behavior:
        """Keep a request, and say what is to become of it."""
        with self.lock:
            self.asked.append(asked)
            self.has_come.set()
            return self.script.pop(0) if len(self.script) > 1 else self.script[0]


@contextmanager
def endpoint(*script: Behavior) -> Generator[Endpoint]:
    """A server on a free port for as long as a test lasts."""
    server = _Server(("127.0.0.1", 0), _Handler)
    server.endpoint = Endpoint(port=server.server_port, script=list(script or ("ok",)))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server.endpoint
    finally:
        server.endpoint.is_over.set()
        server.shutdown()
        server.hang_up()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    endpoint: Endpoint
    daemon_threads = True

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._open: list[socket.socket] = []

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.append(request)
        super().process_request(request, client_address)

    def hang_up(self) -> None:
        for one in self._open:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is no news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server  # pyright: ignore[reportIncompatibleVariableOverride]

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def do_POST(self) -> None:
        length = int(self.headers.get("content-length", 0))
        body = json.loads(self.rfile.read(length))
        asked = Asked(self.path, {k.lower(): v for k, v in self.headers.items()}, body)
        behavior = self.server.endpoint.note(asked)
        self.close_connection = True
        _BEHAVIORS[behavior](self, asked)

    # What it may do

    def say(self, asked: Asked, text: str, share: float = 1.0, stop: str = "end_turn") -> None:
        """A whole answer in the manner that was asked for."""
        read = int(share * sum(map(estimate, asked.prompt)))
        chunks, kind = _rendered(asked, text, read, stop)
        self._send(200, "".join(chunks).encode(), kind)

    def fail(self, status: int, headers: Sequence[tuple[str, str]] = ()) -> None:
        """An error as providers word it."""
        error = {"type": "error", "error": {"type": "api_error", "message": "no"}}
        self._send(status, json.dumps(error).encode(), "application/json", headers)

    def break_off(self, asked: Asked) -> None:
        """Half of an answer, and then nobody is there."""
        chunks, kind = _rendered(asked, DIGEST, 1, "end_turn")
        self._begin(kind, 10_000)
        self.wfile.write("".join(chunks).encode()[:200])
        self.wfile.flush()
        self.connection.shutdown(socket.SHUT_RDWR)

    def hold(self, _: Asked) -> None:
        """Not a byte until the client hangs up."""
        with suppress(OSError):
            if not self.connection.recv(1) and not self.server.endpoint.is_over.is_set():
                self.server.endpoint.has_gone.set()

    def trickle(self, asked: Asked) -> None:
        """An answer of which a byte comes now and then, and which never ends."""
        _, kind = _rendered(asked, "", 1, "end_turn")
        self._begin(kind, 1_000_000)
        while not self.server.endpoint.is_over.wait(0.01):
            try:
                self.wfile.write(b" ")
                self.wfile.flush()
            except OSError:
                self.server.endpoint.has_gone.set()
                return

    def raw(self, content: bytes, kind: str) -> None:
        """Any bytes at all."""
        self._send(200, content, kind)

    def cut_json(self, asked: Asked) -> None:
        """An answer that ends in the middle of its JSON, under a length that says it is whole."""
        chunks, kind = _rendered(asked, DIGEST, 1, "end_turn")
        text = "".join(chunks)
        self._send(200, text[: len(text) * 2 // 5].rstrip("}\n ").encode(), kind)

    def leak(self, asked: Asked) -> None:
        """An error that repeats the key it was sent."""
        sent = asked.headers.get("x-api-key", "") + asked.headers.get("authorization", "")
        error = {"type": "error", "error": {"type": "invalid", "message": f"bad key {sent}"}}
        self._send(400, json.dumps(error).encode(), "application/json")

    def send_away(self) -> None:
        """To somebody else, who would be sent the key."""
        self._send(307, b"", "text/plain", [("location", f"{self.server.endpoint.url}/elsewhere")])

    def _send(
        self, status: int, content: bytes, kind: str, headers: Sequence[tuple[str, str]] = ()
    ) -> None:
        with suppress(OSError):
            self._begin(kind, len(content), status, headers)
            self.wfile.write(content)

    def _begin(
        self, kind: str, length: int, status: int = 200, headers: Sequence[tuple[str, str]] = ()
    ) -> None:
        self.send_response(status)
        for name, value in (("content-type", kind), ("content-length", str(length)), *headers):
            self.send_header(name, value)
        self.end_headers()


_BEHAVIORS: dict[Behavior, Callable[[_Handler, Asked], None]] = {
    "ok": lambda h, asked: h.say(asked, h.server.endpoint.answer(asked)),
    "json": lambda h, asked: h.say(
        asked, '```json\n{"digest": {"progress": [{"text": "The limiter was changed."}]}}\n```'
    ),
    "401": lambda h, _: h.fail(401),
    "429": lambda h, _: h.fail(429, [("retry-after", "3")]),
    "429 for long": lambda h, _: h.fail(429, [("retry-after", "600")]),
    "500": lambda h, _: h.fail(500),
    "529": lambda h, _: h.fail(529),
    "killed": lambda h, asked: h.break_off(asked),
    "silence": lambda h, asked: h.hold(asked),
    "truncated JSON": lambda h, asked: h.cut_json(asked),
    "refusal": lambda h, asked: h.say(asked, EXCUSE, stop="refusal"),
    "prose": lambda h, asked: h.say(asked, PROSE),
    "ten times": lambda h, asked: h.say(
        asked, DIGEST + "- the limiter was looked at once more\n" * 2_000
    ),
    "empty": lambda h, asked: h.say(asked, " \n"),
    "cut silently": lambda h, asked: h.say(asked, DIGEST, share=0.5),
    "garbage": lambda h, _: h.raw(bytes(range(256)) * 8, "application/json"),
    "wrong type": lambda h, _: h.raw(
        b"<html><body>Welcome to the proxy</body></html>", "text/html"
    ),
    "trickle": lambda h, asked: h.trickle(asked),
    "leak": lambda h, asked: h.leak(asked),
    "redirect": lambda h, _: h.send_away(),
}


def _rendered(asked: Asked, text: str, read: int, stop: str) -> tuple[list[str], str]:
    wrote = max(1, estimate(text))
    streams = bool(asked.body.get("stream"))
    if asked.path.endswith("/messages"):
        usage = {"input_tokens": read, "output_tokens": wrote}
        if not streams:
            content = [{"type": "text", "text": text}]
            whole = _message(asked, usage) | {"content": content, "stop_reason": stop}
            return [json.dumps(whole)], "application/json"
        return list(_message_events(asked, text, usage, stop)), "text/event-stream"
    finish = {"end_turn": "stop", "refusal": "content_filter"}[stop]
    usage = {"prompt_tokens": read, "completion_tokens": wrote, "total_tokens": read + wrote}
    message = {"role": "assistant", "content": text}
    if not streams:
        choice = {"index": 0, "message": message, "finish_reason": finish}
        whole = {"object": "chat.completion", "choices": [choice], "usage": usage}
        return [json.dumps(whole)], "application/json"
    choices = [{"index": 0, "delta": message, "finish_reason": finish}]
    chunk = json.dumps({"object": "chat.completion.chunk", "choices": choices, "usage": usage})
    return [f"data: {chunk}\n\n", "data: [DONE]\n\n"], "text/event-stream"


def _message(asked: Asked, usage: dict[str, int]) -> dict[str, Any]:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": asked.body["model"],
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }


def _message_events(asked: Asked, text: str, usage: dict[str, int], stop: str) -> Iterator[str]:
    block = {"type": "text", "text": ""}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": _message(asked, {**usage, "output_tokens": 1})},
        {"type": "content_block_start", "index": 0, "content_block": block},
        *(
            {
                "type": "content_block_delta",
                "index": 0,
                "delta": {"type": "text_delta", "text": text[start : start + 40]},
            }
            for start in range(0, len(text), 40)
        ),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}},
        {"type": "message_stop"},
    ]
    events[-2]["usage"] = {"output_tokens": usage["output_tokens"]}
    for event in events:
        yield f"event: {event['type']}\ndata: {json.dumps(event)}\n\n"
