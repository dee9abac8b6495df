"""What callers may send, and how it is told apart."""

from __future__ import annotations

import contextlib
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_compaction import formats
from mcp_compaction.errors import MalformedMessage
from mcp_compaction.formats.foreign import detect
from mcp_compaction.model import Sections, Shape
from tests.strategies import SHAPES, Json, Scene, scripts, write


@pytest.mark.parametrize(
    ("message", "shape"),
    [
        ({"role": "user", "content": "x"}, "anthropic"),
        ({"role": "assistant", "content": [{"type": "text", "text": "x"}]}, "anthropic"),
        ({"role": "system", "content": "x"}, "openai"),
        ({"role": "developer", "content": "x"}, "openai"),
        ({"role": "tool", "tool_call_id": "a", "content": "x"}, "openai"),
        ({"role": "assistant", "content": None, "tool_calls": []}, "openai"),
        ({"role": "user", "content": [{"type": "image_url"}]}, "openai"),
        ({"role": "user", "content": [{"type": "image"}]}, "anthropic"),
        ({"role": "user", "content": [{"type": "input_text"}]}, "responses"),
        ({"type": "reasoning", "summary": []}, "responses"),
        ({"type": "message", "role": "user", "content": "x"}, "responses"),
        ({"type": "message", "role": "assistant", "content": [], "stop_reason": "x"}, "anthropic"),
    ],
)
def test_shapes_are_told_apart(message: Json, shape: Shape) -> None:
    assert detect(message) == shape


@pytest.mark.parametrize("shape", SHAPES)
@given(script=scripts(max_steps=4))
@settings(deadline=None)
def test_a_body_a_list_and_lines_hold_the_same_messages(shape: Shape, script: list[Scene]) -> None:
    messages: Any = write(script, shape)
    listed = formats.read_incoming(messages)
    lines = "\r\n\n".join(json.dumps(m) for m in messages) + "\n"
    read = formats.read_incoming_text(lines)
    key = "input" if shape == "responses" else "messages"
    body = formats.read_incoming({key: messages, "model": "m1"})
    assert body.whole
    assert not listed.whole
    assert body.model == "m1"
    assert [m.raw for m in listed.messages] == [m.raw for m in body.messages]
    assert [m.raw for m in read.messages] == [json.dumps(m) for m in messages]
    assert [json.loads(m.raw) for m in listed.messages] == messages
    assert {m.shape for m in listed.messages} == {m.shape for m in read.messages}
    for message in body.messages:
        formats.read(message.shape, message.raw)


@given(data=st.recursive(st.none() | st.text() | st.integers(), lambda x: st.lists(x)))
@settings(deadline=None)
def test_any_json_is_read_or_refused(data: Any) -> None:
    for value in (data, [data], {"role": "user", "content": data}, {"messages": data}):
        with contextlib.suppress(MalformedMessage):
            formats.read_incoming(value)


@given(text=st.text(max_size=40))
@settings(deadline=None)
def test_any_text_is_read_or_refused_in_words(text: str) -> None:
    with pytest.raises(MalformedMessage, match="; "):
        formats.read_incoming_text(text)


def test_the_sections_of_a_body() -> None:
    tool: Any = {"name": "Read", "input_schema": {}}
    body = formats.read_incoming(
        {"system": "be brief", "tools": [tool], "task": "t", "memory": "m", "messages": []}
    )
    assert body.sections == Sections(system="be brief", tools=(tool,), task="t", memory="m")
    assert body.messages == ()
    assert formats.read_incoming({"messages": []}).sections is None
    responses = formats.read_incoming({"instructions": "be brief", "input": "hi"})
    assert responses.sections == Sections(system="be brief")
    assert responses.messages[0].shape == "responses"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (
            {"complexity": "hard"},
            "complexity is no known word; use simple, medium, complex or epic",
        ),
        ({"complexity": ["epic"]}, "complexity is no known word"),
        (
            {"agent_profile": 3},
            "agent_profile is no known word; use plain, verbose or deliberative",
        ),
    ],
)
def test_a_trait_that_no_session_can_have_is_refused(body: dict[str, Any], words: str) -> None:
    with pytest.raises(MalformedMessage, match=words):
        formats.read_incoming({"messages": [], **body})


def test_the_tools_of_a_body_tell_its_shape() -> None:
    messages: Any = [{"role": "user", "content": "hi"}]
    tools: Any = [{"type": "function", "function": {"name": "x"}}]
    assert (
        formats.read_incoming({"messages": messages, "tools": tools}).messages[0].shape == "openai"
    )
    anthropic: Any = [{"name": "x", "input_schema": {}}]
    body = formats.read_incoming({"messages": messages, "tools": anthropic})
    assert body.messages[0].shape == "anthropic"
    system: Any = [{"role": "system", "content": "env"}]
    assert (
        formats.read_incoming({"system": "", "messages": system}).messages[0].shape == "anthropic"
    )


def test_ids_times_usage_and_model_are_read() -> None:
    usage: Any = {
        "input_tokens": 3,
        "cache_read_input_tokens": 90,
        "cache_creation_input_tokens": 7,
        "output_tokens": 50,
    }
    said: Any = {"role": "assistant", "content": "x", "usage": usage, "model": "opus", "id": "i"}
    asked: Any = {"role": "user", "content": "y", "uuid": "u", "id": "i", "timestamp": 1763164800}
    dated: Any = {"role": "user", "content": "z", "created_at": "2025-11-15T00:00:00Z"}
    came = formats.read_incoming([said, asked, dated])
    assert came.reported == 150
    assert came.model == "opus"
    assert [m.host_id for m in came.messages] == ["i", "u", None]
    moment = datetime(2025, 11, 15, tzinfo=UTC)
    assert [m.at for m in came.messages] == [None, moment, moment]


def reported_of(**usage: Any) -> int | None:
    answer: Any = {"role": "assistant", "content": "x", "usage": usage}
    return formats.read_incoming(answer).reported


def test_a_chat_completion_reports_its_prompt_and_what_of_its_answer_is_sent_back() -> None:
    assert reported_of(prompt_tokens=12) == 12
    assert reported_of(prompt_tokens=12, completion_tokens=30) == 42
    thought = {"reasoning_tokens": 20}
    assert (
        reported_of(prompt_tokens=12, completion_tokens=30, completion_tokens_details=thought) == 22
    )


def test_of_several_calls_that_one_request_took_the_last_has_the_size_of_the_window() -> None:
    compacting = {"type": "compaction", "input_tokens": 180_000, "output_tokens": 3_500}
    searching = {"type": "message", "input_tokens": 20_000, "output_tokens": 400}
    answering = {
        "type": "message",
        "input_tokens": 3_000,
        "cache_read_input_tokens": 20_000,
        "output_tokens": 1_000,
    }
    total = {"input_tokens": 43_000, "output_tokens": 1_400}
    assert reported_of(**total, iterations=[compacting, searching, answering]) == 24_000
    assert reported_of(**total, iterations=[compacting]) == 44_400
    assert reported_of(**total, iterations=None) == 44_400
    assert reported_of(**total, iterations=[]) == 44_400


GOOD = '{"role":"user","content":"x"}'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "there is no message in it; "),
        (" \n\n", "there is no message in it; "),
        ("[]", "there is no message in it; "),
        ("3", "there is no message in it; "),
        (GOOD + '\n\n{"role":"user","con', "line 3 is not valid JSON"),
        (GOOD + "\n[]", "line 2 is not a message; "),
        (GOOD + '\n{"content":"x"}', "line 2 has no role; "),
        ('{"role":"user" "content":"x"}\n' + GOOD, "line 1 is not valid JSON"),
        (f"[{GOOD},{GOOD},{{}}]", "message 3 has no role; "),
        (f"[{GOOD},3]", "message 2 is not an object; "),
        ('{"messages":3}', "messages is not a list; "),
        ('{"messages":[],"tools":3}', "tools is not a list of objects; "),
        ('{"messages":[],"tools":[3]}', "tools is not a list of objects; "),
        ('{"messages":[],"task":3}', "task is not a text; "),
        ('{"messages":[{"role":"user"}]}', "message 1 has no content; "),
        ("{\n3", "the document is not valid JSON"),
        ("[" * 100_000, "nests deeper than 100 levels; "),
    ],
)
def test_bad_input_is_told_apart(text: str, words: str) -> None:
    with pytest.raises(MalformedMessage) as caught:
        formats.read_incoming_text(text)
    assert words in str(caught.value)


def test_what_no_json_can_say_is_refused() -> None:
    deep: Any = "x"
    for _ in range(2000):
        deep = [deep]
    with pytest.raises(MalformedMessage, match="nests deeper"):
        formats.read_incoming({"role": "user", "content": deep})
    with pytest.raises(MalformedMessage, match="a number JSON has no word for; "):
        formats.read_incoming({"role": "user", "content": "x", "n": float("nan")})


@pytest.mark.parametrize("letter", ["x", "é"])
def test_a_message_over_the_limit_is_refused(letter: str) -> None:
    fits = letter * (2**23 - 100)
    assert formats.read_incoming({"role": "user", "content": fits})
    with pytest.raises(
        MalformedMessage, match=r"message 1 has .* bytes, over the limit of 16,777,2"
    ):
        formats.read_incoming([{"role": "user", "content": letter * 2**24}])


TEXT: Json = {"type": "text", "text": "x"}
DIFFERENT: list[Json] = [
    {"role": "user", "content": "y"},
    {"role": "assistant", "content": "x"},
    {"role": "user", "content": [{**TEXT, "citations": []}]},
    {"role": "user", "content": [TEXT, TEXT]},
    {"role": "user", "content": []},
]


@pytest.mark.parametrize("other", DIFFERENT)
def test_different_messages_have_different_normal_forms(other: Json) -> None:
    assert formats.normalize({"role": "user", "content": "x"}) != formats.normalize(other)


ODD = [{"type": ["image"], "text": "x"}]


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": ODD}]},
        {"type": "function_call_output", "call_id": "t", "output": ODD},
    ],
)
def test_a_block_of_a_result_with_an_odd_type_is_kept_whole(message: Any) -> None:
    (kept,) = formats.read_incoming(message).messages
    assert json.loads(kept.raw) == message
