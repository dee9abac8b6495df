"""Requests whose history has no beginning: they pass as they came, byte for byte."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcp_compaction.gateway import forwarding
from mcp_compaction.gateway.calls import read_call
from tests.gateway.talking import PATHS, StrictProvider, open_talk
from tests.gateway.upstream import Asked

pytestmark = pytest.mark.anyio

HELLO = {"role": "user", "content": "Hello."}
ANSWER = {"role": "assistant", "content": "Well?"}
RESULT = {"type": "tool_result", "tool_use_id": "toolu_9", "content": "found"}
CALL: dict[str, Any] = {"type": "tool_use", "id": "toolu_9", "name": "Read", "input": {}}
OUTPUT = {"type": "function_call_output", "call_id": "call_9", "output": "found"}
FUNCTION = {"type": "function_call", "call_id": "call_9", "name": "Read", "arguments": "{}"}
SPOKEN = {"id": "call_9", "type": "custom", "custom": {"name": "Read", "input": ""}}
TOOL = {"role": "tool", "tool_call_id": "call_9", "content": "found"}
COMPACTED = {"role": "assistant", "content": [{"type": "compaction", "content": "all"}]}

TORN: list[tuple[str, list[Any]]] = [
    ("anthropic", [ANSWER, HELLO]),
    ("anthropic", [{"role": "user", "content": [RESULT]}]),
    ("anthropic", [HELLO, ANSWER, {"role": "user", "content": [RESULT]}]),
    ("openai", [{"role": "system", "content": "Be brief."}, ANSWER, HELLO]),
    ("openai", [HELLO, TOOL]),
    ("responses", [{"role": "developer", "content": "Be brief."}, FUNCTION, OUTPUT]),
    ("responses", [HELLO, OUTPUT]),
]
WHOLE: list[tuple[str, list[Any]]] = [
    (
        "anthropic",
        [HELLO, {"role": "assistant", "content": [CALL]}, {"role": "user", "content": [RESULT]}],
    ),
    ("anthropic", [COMPACTED, HELLO]),
    ("openai", [HELLO, {"role": "assistant", "content": None, "tool_calls": [SPOKEN]}, TOOL]),
    ("responses", [HELLO, FUNCTION, OUTPUT]),
    ("responses", [{"type": "compaction", "encrypted_content": "x"}, HELLO]),
]
HEADERS = {
    "anthropic": {"x-claude-code-session-id": "chat-1"},
    "responses": {"thread-id": "chat-1", "user-agent": "codex_exec/0"},
    "openai": {"x-session-id": "chat-1"},
}


@pytest.mark.parametrize(("shape", "messages"), TORN)
async def test_a_history_without_a_beginning_passes_byte_for_byte(
    tmp_path: Path, shape: str, messages: list[Any]
) -> None:
    heard: list[bytes] = []
    provider = StrictProvider(shape)

    async def hear(asked: Asked, writer: Any) -> None:
        heard.append(asked.body)
        await provider.answer(asked, writer)

    provider.hears = hear
    async with open_talk(tmp_path, provider) as (host, store):
        await (await store.session("other")).pin("Never push.", by="user", scope="project")
        body = json.dumps(host.body(messages), indent=1).encode()
        for _ in range(2):
            await host.client.post(PATHS[shape], content=body, headers=host.headers)
            await host.turns.settle()
        assert heard == [body, body]
        assert host.turns.tally == {forwarding.TORN: 2}


@pytest.mark.parametrize(("shape", "messages"), WHOLE)
async def test_a_history_with_its_beginning_is_a_turn(shape: str, messages: list[Any]) -> None:
    key = "input" if shape == "responses" else "messages"
    body = json.dumps({"tools": [{"name": "Read"}], key: messages}).encode()
    call = read_call(PATHS[shape], HEADERS[shape], body)
    assert call is not None
    assert call.kind == "turn"
