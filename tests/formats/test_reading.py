"""Each provider's blocks as parts, one for one."""

from __future__ import annotations

import json

import pytest

from mcp_compaction import formats
from mcp_compaction.errors import MalformedMessage
from mcp_compaction.model import (
    Media,
    Opaque,
    Part,
    Role,
    Shape,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from tests.strategies import Json


def read(shape: Shape, message: Json) -> tuple[Role, tuple[Part, ...]]:
    return formats.read(shape, json.dumps(message))


def test_anthropic_blocks_are_read_in_order() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": ""}}
    reference = {"type": "tool_reference", "tool_name": "WebFetch"}
    role, parts = read(
        "anthropic",
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "s"},
                {"type": "redacted_thinking", "data": "x"},
                {"type": "text", "text": "so"},
                {"type": "tool_use", "id": "a", "name": "Read", "input": {"p": 1}},
                {"type": "tool_result", "tool_use_id": "a", "content": [image, reference]},
                {"type": "tool_result", "tool_use_id": "b", "content": "x", "is_error": True},
                {"type": "tool_result", "tool_use_id": "c"},
                image,
                {"type": "document", "source": {"type": "url", "url": "u"}},
                {"type": "compaction", "content": "what was"},
                {"type": "server_tool_use", "id": "s", "name": "web", "input": {"query": "q"}},
            ],
        },
    )
    assert role == "assistant"
    assert parts == (
        Thinking(text="hm"),
        Thinking(),
        Text(text="so"),
        ToolCall(id="a", name="Read", arguments={"p": 1}),
        ToolResult(call="a", text="WebFetch", has_media=True),
        ToolResult(call="b", text="x", is_error=True),
        ToolResult(call="c", text=""),
        Media(media_type="image/png"),
        Media(media_type="application/pdf"),
        Opaque(type="compaction", text="what was"),
        Opaque(type="server_tool_use", text='web\n{"query":"q"}'),
    )


def test_chat_messages_are_read_reasoning_first_calls_last() -> None:
    url = {"url": "data:image/webp;base64,AAAA"}
    role, parts = read(
        "openai",
        {
            "role": "assistant",
            "reasoning_content": "hm",
            "content": [
                {"type": "text", "text": "so"},
                {"type": "image_url", "image_url": url},
                {"type": "image_url", "image_url": {"url": "https://x/y.png"}},
                {"type": "refusal", "refusal": "no"},
            ],
            "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "f", "arguments": "[1]"}},
                {"id": "b", "type": "custom", "custom": {"name": "g", "input": "x"}},
            ],
            "function_call": {"name": "h", "arguments": '{"k":1}'},
        },
    )
    assert role == "assistant"
    assert parts == (
        Thinking(text="hm"),
        Text(text="so"),
        Media(media_type="image/webp"),
        Media(media_type="image"),
        Opaque(type="refusal", text="no"),
        ToolCall(id="a", name="f", arguments={"_raw": "[1]"}),
        ToolCall(id="b", name="g", arguments={"input": "x"}),
        ToolCall(id="function-h", name="h", arguments={"k": 1}),
    )


@pytest.mark.parametrize(
    ("message", "role", "part"),
    [
        ({"role": "developer", "content": "x"}, "system", Text(text="x")),
        (
            {"role": "tool", "tool_call_id": "a", "content": "x"},
            "tool",
            ToolResult(call="a", text="x"),
        ),
        (
            {"role": "tool", "tool_call_id": "a", "content": [{"type": "text", "text": "x"}]},
            "tool",
            ToolResult(call="a", text="x"),
        ),
        (
            {"role": "function", "name": "f", "content": "x"},
            "tool",
            ToolResult(call="function-f", text="x"),
        ),
    ],
)
def test_chat_roles(message: Json, role: Role, part: Part) -> None:
    assert read("openai", message) == (role, (part,))


@pytest.mark.parametrize(
    ("item", "role", "part"),
    [
        ({"role": "user", "content": "x"}, "user", Text(text="x")),
        (
            {
                "type": "message",
                "role": "developer",
                "content": [{"type": "input_text", "text": "x"}],
            },
            "system",
            Text(text="x"),
        ),
        (
            {"type": "message", "role": "user", "content": [{"type": "input_image"}]},
            "user",
            Media(media_type="image"),
        ),
        (
            {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "refusal", "refusal": "no"}],
            },
            "assistant",
            Text(text="no"),
        ),
        (
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
            "assistant",
            Thinking(text="hm"),
        ),
        (
            {"type": "custom_tool_call", "call_id": "a", "name": "p", "input": "x"},
            "assistant",
            ToolCall(id="a", name="p", arguments={"input": "x"}),
        ),
        (
            {"type": "local_shell_call", "call_id": "a", "action": {"command": ["ls"]}},
            "assistant",
            ToolCall(id="a", name="local_shell", arguments={"action": {"command": ["ls"]}}),
        ),
        (
            {
                "type": "function_call_output",
                "call_id": "a",
                "output": [{"type": "input_text", "text": "x"}],
            },
            "tool",
            ToolResult(call="a", text="x"),
        ),
        (
            {"type": "web_search_call", "status": "completed"},
            "assistant",
            Opaque(type="web_search_call"),
        ),
        (
            {"type": "additional_tools", "role": "developer", "tools": []},
            "system",
            Opaque(type="additional_tools"),
        ),
    ],
)
def test_response_items(item: Json, role: Role, part: Part) -> None:
    assert read("responses", item) == (role, (part,))


@pytest.mark.parametrize(
    ("shape", "message", "words"),
    [
        ("anthropic", {"content": "x"}, "the message has no role; say"),
        ("anthropic", {"role": "bot", "content": "x"}, "the message has the role 'bot'; say"),
        ("anthropic", {"role": "user"}, "the message has no content; give"),
        ("anthropic", {"role": "user", "content": ["x"]}, "block 1 has no type; name"),
        (
            "anthropic",
            {"role": "assistant", "content": [{"type": "tool_use", "name": "x"}]},
            "tool_use without id; add",
        ),
        (
            "anthropic",
            {"role": "user", "content": [{"type": "tool_result"}]},
            "tool_result without tool_use_id; add",
        ),
        ("openai", {"content": "x"}, "has no role; say"),
        ("openai", {"role": "user"}, "has no content; give"),
        ("openai", {"role": "tool", "content": "x"}, "without tool_call_id; add"),
        (
            "openai",
            {"role": "assistant", "tool_calls": [{"id": "a"}]},
            "a tool call without function; add",
        ),
        ("responses", {"type": "message", "content": "x"}, "has no role; say"),
        ("responses", {"type": 3}, "has no type; name"),
        ("responses", {"type": "function_call", "name": "x"}, "without call_id; add"),
    ],
)
def test_what_is_wrong_is_said_with_the_next_step(shape: Shape, message: Json, words: str) -> None:
    with pytest.raises(MalformedMessage) as caught:
        read(shape, message)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        ("[]", "is not a JSON object"),
        ('{"role":', "is not valid JSON"),
        ('{"role":"user","content":NaN}', "NaN is no JSON number"),
        ('{"role":"user","content":' + "9" * 5000 + "}", "is not valid JSON"),
        ('{"role":"user","content":' + "[" * 200 + "]" * 200 + "}", "nests deeper"),
        ("[" * 100_000 + "]" * 100_000, "nests deeper"),
    ],
)
def test_bad_json_is_refused_in_words(raw: str, words: str) -> None:
    with pytest.raises(MalformedMessage, match=words):
        formats.read("anthropic", raw)
