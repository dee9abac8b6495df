"""A model on loopback that says to the hosts what a test has written.

In the Messages API it thinks before it says anything, and binds that to what was sent before it, as
today's default models do: behind anything else it refuses what it thought.
"""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from threading import Event, Lock, Thread
from typing import Any, NamedTuple

from mcp_compaction.gateway.answers import AnswerReader
from tests.checkers import MessageThreads, signature_behind, unbound_thinking

OWN_TOOLS = "pin_constraint"  # by which it is seen that the host has connected to our server
SUMMARY_REQUESTS = ("create a detailed summary", "CONTEXT CHECKPOINT COMPACTION")
DROPS_EVERYTHING = "<summary>We talked.</summary>"
HANDOVER_REQUEST = "a request of the program that keeps this session's record"
SNAPSHOT = "<state_snapshot>We talked.</state_snapshot>"  # what Gemini CLI asks for


class Step(NamedTuple):
    """What the model does next: call a tool, or say something."""

    text: str = ""
    tool: str = ""
    arguments: dict[str, Any] = {}  # noqa: RUF012  # never changed
    reported: int | None = None  # the tokens that it claims to have read
    thinking: str = ""  # before it
    beside: tuple[Step, ...] = ()  # calls at the same time
    cached: int = 0  # the tokens of the request that it claims to have had at hand
    written: int = 0  # and those that it claims to keep at hand, for five minutes
    until_forks: int = 0  # it does this again and again until so many have come


MOST_WAITS = 300
WAIT = Step(tool="shell", arguments={"command": "true"})


class ScriptedModel:
    """Answers requests step by step, and keeps them."""

    def __init__(self, *steps: Step) -> None:
        self._steps = list(steps)
        self._lock = Lock()
        self._numbers = count(1)
        self._waits = 0
        self.waits_for_us = True  # False: it goes on where our server is not there
        self.requests: list[str] = []  # those of the agent, as they came
        self.handover = ""  # what it answers our module, which asks over the session's own window
        self.forks: list[str] = []  # the requests of these questions
        self.forked_behind: list[int] = []  # and how many requests had come before each
        self.may_hand_over = Event()  # until when it thinks about them
        self.may_hand_over.set()
        self.refuses_forks = False
        self.unbound: list[str] = []  # the refusals of thinking behind another beginning
        self.dropped = 0  # requests of which such thinking was dropped, as they wished
        self.url = ""
        self.threads = MessageThreads()

    def add(self, *steps: Step) -> None:
        """Say this too, after all that was to be said before."""
        self._steps += steps

    def next_step(self, body: dict[str, Any]) -> Step:
        """The step that a request gets; a request for a summary gets one that drops everything."""
        said = json.dumps(body, ensure_ascii=False)
        if any(words in json.dumps(_newest(body)) for words in SUMMARY_REQUESTS):
            return Step(DROPS_EVERYTHING)
        if HANDOVER_REQUEST in json.dumps(_newest(body)):
            self.forks.append(said)
            self.forked_behind.append(len(self.requests))
            self.may_hand_over.wait()
            return Step(self.handover, reported=10, cached=len(said) // 4)
        if not _tools_of(body):
            return Step(SNAPSHOT if "state_snapshot" in said else "a title")
        # In Code Mode Codex lists no deferred tool; it waits for a server that is required.
        is_listed = _is_code_mode(_first_of(body)) or OWN_TOOLS in json.dumps(_tools_of(body))
        if self.waits_for_us and not is_listed:
            self._waits += 1  # a host whose server never comes would ask for ever
            return WAIT if self._waits < MOST_WAITS else Step("our server is not there")
        with self._lock:
            self.requests.append(said)
            while self._steps and 0 < self._steps[0].until_forks <= len(self.forks):
                self._steps.pop(0)
            step = self._steps.pop(0) if self._steps else Step("done")
            if step.until_forks and len(self.requests) < MOST_WAITS:
                self._steps.insert(0, step)
            return step

    def refusal_of(self, body: dict[str, Any], betas: str) -> str | None:
        """Why a request of the Messages API is refused; None: it is not."""
        if self.refuses_forks and HANDOVER_REQUEST in json.dumps(_newest(body)):
            return "no"
        refusal = unbound_thinking(body)
        if refusal is None:
            return None
        thinking: dict[str, Any] = body.get("thinking") or {}
        wish: dict[str, Any] = thinking.get("block_binding") or {}
        is_wished = wish.get("prefix_mismatch_behavior") == "drop_block"
        if is_wished and "thinking-binding-controls-2026-08-01" in betas:
            self.dropped += 1
            return None
        self.unbound.append(refusal)
        return refusal

    def number(self) -> int:
        """A number that was not given before."""
        return next(self._numbers)


def _tools_of(body: dict[str, Any]) -> list[Any]:
    """The tools of a request; in Codex's Code Mode they stand before all that is said."""
    first = _first_of(body)
    return body.get("tools") or (first.get("tools", []) if _is_code_mode(first) else [])


def _first_of(body: dict[str, Any]) -> dict[str, Any]:
    items: list[dict[str, Any]] = body.get("input") or [{}]
    return items[0]


def _is_code_mode(first: dict[str, Any]) -> bool:
    return first.get("type") == "additional_tools"


def _newest(body: dict[str, Any]) -> list[Any]:
    messages: list[Any] = body.get("messages") or body.get("input") or body.get("contents") or []
    users = [n for n, one in enumerate(messages) if one.get("role") == "user"]
    return messages[users[-1] if users else -1 :]


@contextmanager
def serve_model(model: ScriptedModel) -> Generator[ScriptedModel]:
    """Serve a model on loopback until the end of the block."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._send(b'{"data": [], "models": []}', "application/json")

        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers.get("content-length") or 0))
            if self.path.partition("?")[0].endswith("/count_tokens"):
                self._send(b'{"input_tokens": 1000}', "application/json")
                return
            body = model.threads.find_whole(json.loads(raw))
            is_messages = self.path.partition("?")[0].endswith("/messages")
            betas = self.headers.get("anthropic-beta") or ""
            refusal = model.refusal_of(body, betas) if is_messages and body else None
            if body is None or refusal is not None:
                error = {"type": "invalid_request_error", "message": refusal or "thread_not_found"}
                told = json.dumps({"type": "error", "error": error}).encode()
                self._send(told, "application/json", 404 if body is None else 400)
                return
            step = model.next_step(body)
            if "GenerateContent" in self.path or "generateContent" in self.path:
                self._send_gemini(json.dumps(_answer_gemini(step, body, model.number())))
                return
            answer = _answer_messages if "/messages" in self.path else _answer_responses
            events = answer(step, body, model.number())
            lines = (f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in events)
            told = "".join(lines).encode()
            message = _message_in(told)
            model.threads.keep(body, message)
            is_whole = is_messages and not body.get("stream")  # as Claude Code tries a model
            kind = "application/json" if is_whole else "text/event-stream"
            self._send(json.dumps(message).encode() if is_whole else told, kind)

        def _send_gemini(self, answer: str) -> None:
            if "stream" in self.path:
                self._send(f"data: {answer}\n\n".encode(), "text/event-stream")
            else:
                self._send(answer.encode(), "application/json")

        def _send(self, data: bytes, kind: str, status: int = 200) -> None:
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


def _answer_messages(step: Step, body: dict[str, Any], number: int) -> list[dict[str, Any]]:
    """A streamed answer of the Messages API."""
    read = step.reported or len(json.dumps(body)) // 4
    usage: dict[str, Any] = {"input_tokens": read, "output_tokens": 20}
    usage["cache_read_input_tokens"] = step.cached
    if step.written:
        usage["cache_creation_input_tokens"] = step.written
        held = {"ephemeral_5m_input_tokens": step.written, "ephemeral_1h_input_tokens": 0}
        usage["cache_creation"] = held
    begun: dict[str, Any] = {"id": f"msg_{number}", "type": "message", "role": "assistant"}
    begun |= {"content": [], "model": body.get("model"), "stop_reason": None, "usage": usage}
    stop = {"stop_reason": "tool_use" if step.tool else "end_turn", "stop_sequence": None}
    blocks = enumerate(_blocks_of(step, body, number))
    return [
        {"type": "message_start", "message": begun},
        *({**event, "index": index} for index, events in blocks for event in events),
        {"type": "message_delta", "delta": stop, "usage": usage},
        {"type": "message_stop"},
    ]


def _message_in(stream: bytes) -> dict[str, Any]:
    """The answer that a stream of the Messages API tells."""
    reader = AnswerReader("anthropic", {"content-type": "text/event-stream"})
    reader.feed(stream)
    return reader.end().message or {}


def _blocks_of(
    step: Step, body: dict[str, Any], number: int
) -> Generator[tuple[dict[str, Any], ...]]:
    """The events of each block of an answer."""
    if body.get("tools"):
        thought = {"type": "thinking_delta", "thinking": step.thinking}
        signature = signature_behind(body, body["messages"])
        signed = {"type": "signature_delta", "signature": signature}
        yield _block({"type": "thinking", "thinking": "", "signature": ""}, thought, signed)
    if not step.tool:
        yield _block({"type": "text", "text": ""}, {"type": "text_delta", "text": step.text})
        return
    names = [tool["name"] for tool in body.get("tools", [])]
    for place, call in enumerate((step, *step.beside)):
        block: dict[str, Any] = {"type": "tool_use", "id": f"toolu_{number}_{place}", "input": {}}
        block["name"] = _name_among(call.tool, names)
        said = json.dumps(call.arguments)
        yield _block(block, {"type": "input_json_delta", "partial_json": said})


def _block(block: dict[str, Any], *deltas: dict[str, Any]) -> tuple[dict[str, Any], ...]:
    return (
        {"type": "content_block_start", "content_block": block},
        *({"type": "content_block_delta", "delta": delta} for delta in deltas),
        {"type": "content_block_stop"},
    )


def _answer_responses(step: Step, body: dict[str, Any], number: int) -> list[dict[str, Any]]:
    """A streamed answer of the Responses API."""
    item: dict[str, Any] = {"id": f"item_{number}", "status": "completed"}
    if step.tool and _is_code_mode(_first_of(body)):
        item |= {"type": "custom_tool_call", "call_id": f"call_{number}", "name": "exec"}
        item["input"] = _write_code(step)
    elif step.tool:
        item |= {"type": "function_call", "call_id": f"call_{number}"}
        item |= _call_for_codex(step, body)
    else:
        content: list[Any] = [{"type": "output_text", "text": step.text, "annotations": []}]
        item |= {"type": "message", "role": "assistant", "content": content}
    read = step.reported or len(json.dumps(body)) // 4
    usage = {"input_tokens": read, "output_tokens": 20, "total_tokens": read + 20}
    whole = {"id": f"resp_{number}", "object": "response", "status": "completed"}
    whole |= {"model": body.get("model"), "output": [item], "usage": usage}
    return [
        {"type": "response.created", "response": {**whole, "status": "in_progress", "output": []}},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": whole},
    ]


def _answer_gemini(step: Step, body: dict[str, Any], number: int) -> dict[str, Any]:
    """An answer of generateContent."""
    part: dict[str, Any] = {"text": step.text}
    if step.tool:
        offered: list[dict[str, Any]] = [
            one for group in body.get("tools", []) for one in group.get("functionDeclarations", [])
        ]
        name = _name_among(step.tool, [one["name"] for one in offered])
        part = {"functionCall": {"id": f"f{number}", "name": name, "args": step.arguments}}
    read = step.reported or len(json.dumps(body)) // 4
    said = {"index": 0, "content": {"role": "model", "parts": [part]}, "finishReason": "STOP"}
    usage = {"promptTokenCount": read, "candidatesTokenCount": 20, "totalTokenCount": read + 20}
    return {"candidates": [said], "usageMetadata": usage, "responseId": f"r{number}"}


def _name_among(tool: str, names: list[str]) -> str:
    """The name that a host gives a tool: that of the shell, or one of ours behind its server's."""
    if tool in names:
        return tool
    if tool == "shell":
        shells = ("Bash", "bash", "run_shell_command")
        return next(name for name in shells if name in names)
    return next((name for name in names if name.endswith(tool)), f"mcp__compaction__{tool}")


def _write_code(step: Step) -> str:
    """The call as a script that calls it: in Code Mode all other tools stand within one."""
    is_shell = step.tool == "shell"
    name = "exec_command" if is_shell else f"mcp__compaction__{step.tool}"
    wish = {"cmd": step.arguments["command"]} if is_shell else step.arguments
    return f"text(JSON.stringify(await tools.{name}({json.dumps(wish)})));"


def _call_for_codex(step: Step, body: dict[str, Any]) -> dict[str, str]:
    if step.tool != "shell":
        arguments = json.dumps(step.arguments)
        spaces = (one for one in body.get("tools", []) if one.get("type") == "namespace")
        named = (one["name"] for one in spaces if step.tool in {t["name"] for t in one["tools"]})
        space = next(named, "mcp__compaction")
        return {"name": step.tool, "namespace": space, "arguments": arguments}
    names = {str(one.get("name")) for one in body.get("tools", [])}
    if "exec_command" in names:
        arguments = json.dumps({"cmd": step.arguments["command"]})
        return {"name": "exec_command", "arguments": arguments}
    return {"name": "shell_command", "arguments": json.dumps(step.arguments)}
