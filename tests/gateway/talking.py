"""A host that talks through a gateway, and a strict provider that it talks to."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import httpx2

from mcp_compaction import open_store
from mcp_compaction.api import OpenStore
from mcp_compaction.gateway import forwarding
from mcp_compaction.gateway.turns import CallTurns
from tests.checkers import (
    BoundReasoning,
    BoundThinking,
    Json,
    MessageThreads,
    problems,
    unbound_thinking,
)
from tests.gateway.upstream import Answer, Asked, open_gateway, provide, write_whole

PATHS = {
    "anthropic": "/v1/messages",
    "openai": "/v1/chat/completions",
    "responses": "/v1/responses",
}
TOOLS = [{"name": "Read", "input_schema": {"type": "object"}}]
WINDOW = 3_000


@dataclass(slots=True)
class StrictProvider:
    """Refuses what a provider would, and says what a test wants."""

    shape: str = "anthropic"
    window: int = 10**9  # characters over which a request is too long
    is_streamed: bool = True
    requests: list[Json] = field(default_factory=list[Json])
    faults: list[str] = field(default_factory=list[str])
    said: list[Json] = field(default_factory=list[Json])  # to say next, else plain texts
    status: int | None = None  # to refuse with
    credentials: list[str] = field(default_factory=list[str])
    thinking: BoundThinking | None = None  # of a model that binds it; None: it does not think

    reasoning: BoundReasoning | None = None  # of a model of the Responses API that binds it
    threads: MessageThreads = field(default_factory=MessageThreads)
    hears: Answer | None = None  # in place of `answer`
    headers: dict[str, str] = field(default_factory=dict[str, str])  # more, of what is streamed

    async def __call__(self, asked: Asked, writer: asyncio.StreamWriter) -> None:
        """Answer one request, or have the test do so."""
        await (self.hears or self.answer)(asked, writer)

    async def answer(self, asked: Asked, writer: asyncio.StreamWriter) -> None:
        """Answer one request."""
        body = json.loads(asked.body)
        self.credentials.append(asked.headers.get("x-api-key", ""))
        if asked.path.partition("?")[0].endswith("/count_tokens"):
            self.requests.append(body)
            write_whole(writer, json.dumps({"input_tokens": len(asked.body) // 4}).encode())
            return
        if self.status is not None:
            write_whole(writer, b'{"type": "error"}', self.status)
            return
        body = self.threads.find_whole(body)
        if body is None:
            write_whole(writer, b'{"type": "error"}', 404)
            return
        messages = body["input" if self.shape == "responses" else "messages"]
        self.faults += problems([without_marks(one) for one in messages], self.shape)
        size = sum(len(json.dumps(one)) for one in messages)
        if size > self.window:
            text = f"prompt is too long: {size} tokens > {self.window} maximum"
            error = {"type": "error", "error": {"type": "invalid_request_error", "message": text}}
            write_whole(writer, json.dumps(error).encode(), 400)
            return
        if self.thinking is not None:
            refusal = unbound_thinking(body)
            if refusal is not None:
                error = {"type": "invalid_request_error", "message": refusal}
                told = json.dumps({"type": "error", "error": error})
                self.faults.append(refusal)
                write_whole(writer, told.encode(), 400)
                return
            self.thinking.look_at(body)
        self.requests.append(body)
        removed = self.reasoning.look_at(body) if self.reasoning is not None else []
        whole, events = self._speak(body, size)
        if removed:
            whole["input_transformations"] = events[-1]["response"]["input_transformations"] = (
                removed
            )
        self.threads.keep(body, whole)
        if self.is_streamed:
            lines = [f"event: {one.get('type')}\ndata: {json.dumps(one)}\n\n" for one in events]
            data = "".join(lines).encode()
            write_whole(writer, data, 200, content_type="text/event-stream", **self.headers)
        else:
            write_whole(writer, json.dumps(whole).encode(), content_type="application/json")

    def _speak(self, body: Json, size: int) -> tuple[Json, list[Json]]:
        number = len(self.requests)
        said = self.said.pop(0) if self.said else {"text": f"answer {number}"}
        if self.thinking is not None:
            thought = {"type": "thinking", "thinking": f"thought {number}", "signature": ""}
            said = {**said, "signed": partial(self.thinking.sign, body), "thought": thought}
        if self.reasoning is not None:
            said = {**said, "reasoned": partial(self.reasoning.reason, body, number=number)}
        speak = {"anthropic": _messages, "responses": _responses, "openai": _chat}[self.shape]
        return speak(said, number, size // 4)


def without_marks(message: Json) -> Json:
    """A message without cache marks."""
    if not isinstance(message.get("content"), list):
        return message
    blocks: list[Json] = message["content"]
    clean = [{k: v for k, v in block.items() if k != "cache_control"} for block in blocks]
    return {**message, "content": clean}


def plain_form(message: Json) -> Json:
    """A message without cache marks, a single text as a text."""
    clean = without_marks(message)
    if not isinstance(clean.get("content"), list):
        return clean
    blocks: list[Json] = clean["content"]
    is_text = [block.get("type") for block in blocks] == ["text"]
    return {**clean, "content": blocks[0]["text"]} if is_text else clean


def _messages(said: Json, number: int, read: int) -> tuple[Json, list[Json]]:
    block: Json = {"type": "text", "text": said.get("text", "")}
    delta: Json = {"type": "text_delta", "text": block["text"]}
    begun: Json = {"type": "text", "text": ""}
    if "tool" in said:
        block = {"type": "tool_use", "id": f"toolu_{number}", "name": said["tool"]}
        begun = {**block, "input": {}}
        block["input"] = said["input"]
        delta = {"type": "input_json_delta", "partial_json": json.dumps(said["input"])}
    usage = {"input_tokens": read, "output_tokens": 20, **said.get("usage", {})}
    whole = {"id": f"msg_{number}", "type": "message", "role": "assistant", "content": [block]}
    whole |= {"usage": usage, "model": "claude-sonnet-4-5"}
    before: list[Json] = []
    if "signed" in said:
        whole["content"] = said["signed"]([said["thought"], block])
        signature = whole["content"][0]["signature"]
        deltas = [
            {"type": "thinking_delta", "thinking": said["thought"]["thinking"]},
            {"type": "signature_delta", "signature": signature},
        ]
        empty = {"type": "thinking", "thinking": "", "signature": ""}
        before = [
            {"type": "content_block_start", "index": 0, "content_block": empty},
            *({"type": "content_block_delta", "index": 0, "delta": one} for one in deltas),
            {"type": "content_block_stop", "index": 0},
        ]
    last = len(whole["content"]) - 1
    return whole, [
        {"type": "message_start", "message": {**whole, "content": []}},
        *before,
        {"type": "content_block_start", "index": last, "content_block": begun},
        {"type": "content_block_delta", "index": last, "delta": delta},
        {"type": "content_block_stop", "index": last},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage},
        {"type": "message_stop"},
    ]


def _responses(said: Json, number: int, read: int) -> tuple[Json, list[Json]]:
    item: Json = {"type": "message", "id": f"msg_{number}", "role": "assistant"}
    item["content"] = [{"type": "output_text", "text": said.get("text", ""), "annotations": []}]
    if "tool" in said:
        item = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}"}
        item |= {"name": said["tool"], "arguments": json.dumps(said["input"])}
    usage = {"input_tokens": read, "output_tokens": 20, "total_tokens": read + 20}
    items: list[Json] = said["reasoned"]([item]) if "reasoned" in said else [item]
    whole: Json = {"id": f"resp_{number}", "object": "response", "output": items, "usage": usage}
    done: list[Json] = [
        {"type": "response.output_item.done", "output_index": place, "item": one}
        for place, one in enumerate(items)
    ]
    return whole, [
        {"type": "response.created", "response": {**whole, "output": []}},
        *done,
        {"type": "response.completed", "response": whole},
    ]


def _chat(said: Json, number: int, read: int) -> tuple[Json, list[Json]]:
    message: Json = {"role": "assistant", "content": said.get("text")}
    if "tool" in said:
        function = {"name": said["tool"], "arguments": json.dumps(said["input"])}
        message["tool_calls"] = [{"id": f"call_{number}", "type": "function", "function": function}]
    usage = {"prompt_tokens": read, "completion_tokens": 20, "total_tokens": read + 20}
    whole: Json = {"choices": [{"index": 0, "message": message}], "usage": usage}
    calls = [{**one, "index": n} for n, one in enumerate(message.get("tool_calls", []))]
    delta = {**message, "tool_calls": calls} if calls else message
    return whole, [
        {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
        {"choices": [], "usage": usage},
    ]


@dataclass(slots=True)
class Host:
    """A host with a history of its own, as Claude Code, Codex or opencode keep one."""

    client: httpx2.AsyncClient
    turns: CallTurns
    provider: StrictProvider
    session: str = "chat-1"
    agent: str = ""
    model: str = "m"
    history: list[Json] = field(default_factory=list[Json])
    is_threaded: bool = False  # it sends only what is new, until it is told to send all
    thread: tuple[str, int] | None = None  # the last answer's id, and the messages up to it

    @property
    def headers(self) -> dict[str, str]:
        """The headers by which the host names its conversation."""
        names = {
            "anthropic": {"x-claude-code-session-id": self.session, "user-agent": "claude-cli/2"},
            "responses": {"thread-id": self.session, "user-agent": "codex_exec/0"},
            "openai": {"x-session-id": self.session, "user-agent": "opencode/1"},
        }
        found = {**names[self.provider.shape], "authorization": "Bearer sk-ant-secret-credential"}
        return {**found, "x-claude-code-agent-id": self.agent} if self.agent else found

    def body(self, messages: Sequence[Json] | None = None, **more: Any) -> Json:
        """A request body."""
        key = "input" if self.provider.shape == "responses" else "messages"
        given = list(self.history if messages is None else messages)
        tools: list[Any] = [{"type": "function", "function": {"name": "Read"}}]
        tools = TOOLS if self.provider.shape == "anthropic" else tools
        return {"model": self.model, "tools": tools, key: given, "stream": True, **more}

    async def post(self, body: Json, path: str = "") -> httpx2.Response:
        """Send a body, and wait until all that comes of it is recorded."""
        where = PATHS[self.provider.shape] + path
        response = await self.client.post(where, json=body, headers=self.headers)
        await self.turns.settle()
        return response

    async def say(self, text: str) -> None:
        """Say something as the user, and keep the answer."""
        self.history.append({"role": "user", "content": text})
        await self.go_on()

    async def work(self, number: int, size: int = 900) -> None:
        """Have the model call a tool, run it, and send its result."""
        self.provider.said.append({"tool": "Read", "input": {"path": f"/srv/file-{number}.py"}})
        await self.say(f"Read file {number}.")
        result = f"line of file-{number} " * (size // 18)
        shape = self.provider.shape
        last = self.history[-1]
        if shape == "anthropic":
            call = last["content"][-1]["id"]
            block = {"type": "tool_result", "tool_use_id": call, "content": result}
            self.history.append({"role": "user", "content": [block]})
        elif shape == "responses":
            item = {"type": "function_call_output", "call_id": last["call_id"], "output": result}
            self.history.append(item)
        else:
            call = last["tool_calls"][0]["id"]
            self.history.append({"role": "tool", "tool_call_id": call, "content": result})
        await self.go_on()

    async def work_until_compacted(self) -> None:
        """Work until a request was sent smaller, and one more."""
        number = 0
        kind = forwarding.WOULD_COMPACT if self.turns.is_shadow else forwarding.COMPACTED
        before = self.turns.tally[kind]
        while self.turns.tally[kind] == before:
            await self.work(number)
            number += 1
            assert number < 40
        await self.say("Well?")
        await self.say("And now?")

    async def go_on(self) -> None:
        """Send the history, and keep the answer."""
        response = await self.post(self._continue() if self.is_threaded else self.body())
        if "thread_unsupported_request" in response.text:
            assert response.status_code == 400
            self.is_threaded = False
            response = await self.post(self.body())
        assert response.status_code == 200, response.text
        self.history += self._answer_of(response)
        self.thread = f"msg_{len(self.provider.requests)}", len(self.history)

    def _continue(self) -> Json:
        if self.thread is None:
            return self.body(thread={"type": "create"})
        last, count = self.thread
        body = self.body(
            self.history[count:], thread={"type": "continue", "previous_message_id": last}
        )
        del body["tools"]  # the thread has them
        return body

    def _answer_of(self, response: httpx2.Response) -> list[Json]:
        events = [
            json.loads(line[6:]) for line in response.text.splitlines() if line.startswith("data: ")
        ]
        if self.provider.shape == "responses":
            return [one["item"] for one in events if one["type"] == "response.output_item.done"]
        if self.provider.shape == "openai":
            delta = events[0]["choices"][0]["delta"]
            for call in delta.get("tool_calls", []):
                call.pop("index")
            return [delta]
        blocks = [one["content_block"] for one in events if one["type"] == "content_block_start"]
        for event in events:
            if event["type"] == "content_block_delta":
                block, delta = blocks[event["index"]], event["delta"]
                if "partial_json" in delta:
                    block["input"] = json.loads(delta["partial_json"])
                else:
                    block |= {key: value for key, value in delta.items() if key != "type"}
        return [{"role": "assistant", "content": blocks}]

    @property
    def last_sent(self) -> list[Json]:
        """The messages of the last request that came to the provider."""
        body = self.provider.requests[-1]
        return body["input" if self.provider.shape == "responses" else "messages"]


def size_of(messages: Sequence[Json]) -> int:
    """The characters of messages."""
    return sum(len(json.dumps(one)) for one in messages)


@asynccontextmanager
async def open_talk(
    home: Path,
    provider: StrictProvider | None = None,
    *,
    patience: float = 30.0,
    is_shadow: bool = False,
    environ: Mapping[str, str] | None = None,
    **settings: Any,
) -> AsyncGenerator[tuple[Host, OpenStore]]:
    """A host, a gateway with a store, and a strict provider."""
    strict = provider or StrictProvider()
    wanted: dict[str, Any] = {"window_tokens": WINDOW, "counter": "estimate", **settings}
    async with (
        open_store(home=home, project=home, **wanted) as store,
        provide(strict, remembers=False) as upstream,
    ):

        async def open_it() -> OpenStore:
            return store

        turns = CallTurns(
            open_it, store.settings, patience=patience, is_shadow=is_shadow, environ=environ
        )
        async with open_gateway(upstream.url, turns) as (client, _):
            yield Host(client, turns, strict), store
            await turns.settle()
