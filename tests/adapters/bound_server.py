"""The Messages API on loopback, by a model that binds its thinking and refuses it elsewhere."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from tests.checkers import BoundThinking, Json, problems, unbound_thinking

BOUND = "claude-opus-5-5"


class BoundServer:
    """Answers by a script: the blocks that it says to each request, after a thought."""

    def __init__(self, answer: Callable[[int], list[Json]]) -> None:
        self.answer = answer
        self.url = ""
        self.bodies: list[Json] = []  # that were accepted
        self.refused: list[str] = []
        self.thinking = BoundThinking()

    def take(self, body: Json) -> tuple[int, Json]:
        """The status and the answer of a request."""
        faults = problems([_plain(one) for one in body["messages"]], "anthropic")
        refusal = unbound_thinking(body)
        if faults or refusal is not None:
            text = refusal or "; ".join(faults)
            self.refused.append(text)
            error = {"type": "invalid_request_error", "message": text}
            return 400, {"type": "error", "error": error}
        self.thinking.look_at(body)
        self.bodies.append(body)
        number = len(self.bodies)
        thought = {"type": "thinking", "thinking": f"thought {number}", "signature": ""}
        content = self.thinking.sign(body, [thought, *self.answer(number)])
        stop = "tool_use" if content[-1]["type"] == "tool_use" else "end_turn"
        usage = {"input_tokens": len(json.dumps(body)) // 4, "output_tokens": 20}
        answer: Json = {"id": f"msg_{number}", "type": "message", "role": "assistant"}
        answer |= {"model": body["model"], "content": content, "usage": usage}
        return 200, {**answer, "stop_reason": stop, "stop_sequence": None}


def _plain(message: Json) -> Json:
    """A message without what SDKs may write and the API takes."""
    if isinstance(message["content"], str):
        return message
    blocks: list[Json] = message["content"]
    dropped = ("cache_control", "citations", "is_error", "caller")
    clean = [{k: v for k, v in block.items() if k not in dropped} for block in blocks]
    return {**message, "content": clean}


def _stream(answer: Json) -> bytes:
    """An answer as the events that stream it."""
    begun: Json = {**answer, "content": [], "stop_reason": None}
    events: list[Json] = [{"type": "message_start", "message": begun}]
    for index, block in enumerate(answer["content"]):
        empty: Json = {"thinking": "", "signature": "", "text": "", "input": {}}
        start = {**block, **{key: value for key, value in empty.items() if key in block}}
        kinds = {
            "thinking": "thinking_delta",
            "signature": "signature_delta",
            "text": "text_delta",
        }
        events.append({"type": "content_block_start", "index": index, "content_block": start})
        told = [{"type": kind, key: block[key]} for key, kind in kinds.items() if key in block]
        if "input" in block:
            told.append({"type": "input_json_delta", "partial_json": json.dumps(block["input"])})
        events += [{"type": "content_block_delta", "index": index, "delta": one} for one in told]
        events.append({"type": "content_block_stop", "index": index})
    stop = {"stop_reason": answer["stop_reason"], "stop_sequence": None}
    events.append({"type": "message_delta", "delta": stop, "usage": answer["usage"]})
    events.append({"type": "message_stop"})
    return "".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in events).encode()


@contextmanager
def serve_bound(answer: Callable[[int], list[Json]]) -> Generator[BoundServer]:
    """Serve such a model until the end of the block."""
    model = BoundServer(answer)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers.get("content-length") or 0))
            body = json.loads(raw)
            status, told = model.take(body)
            is_streamed = body.get("stream") and status == 200
            data = _stream(told) if is_streamed else json.dumps(told).encode()
            kind = "text/event-stream" if is_streamed else "application/json"
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    model.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield model
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
