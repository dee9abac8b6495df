"""Views in every shape: originals come back, other shapes are valid, cuts replace one block."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_compaction import formats
from mcp_compaction.model import (
    Cut,
    Message,
    Part,
    Shape,
    ShownMessage,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from tests.checkers import changed_thinking, problems
from tests.strategies import SHAPES, Json, Scene, scattered, scripts, write


def recorded(messages: list[Json], shape: Shape) -> list[ShownMessage]:
    """The messages as a view shows them whole."""
    return [ShownMessage(message=record(m, shape, n)) for n, m in enumerate(messages, 1)]


def record(message: Json, shape: Shape, seq: int = 1) -> Message:
    """A message as the log has it."""
    raw = json.dumps(message)
    role, parts = formats.read(shape, raw)
    return Message(seq=seq, role=role, parts=parts, shape=shape, raw=raw)


def show(messages: list[Json], shape: Shape, target: Shape | None = None) -> list[Json]:
    """The messages rendered, of their own shape unless another is named."""
    return formats.render(recorded(messages, shape), target or shape)


def cut_one(message: Json, shape: Shape, part: int, shown: Part) -> Json:
    """One message with one part cut; its calls or results stay as they are, whatever surrounds."""
    cut = Cut(part=part, shown=shown, why="preview")
    return formats.FORMATS[shape].keep(message, (cut,))[0]


def normal(messages: list[Json]) -> list[str]:
    """The messages as identity sees them."""
    return [formats.normalize(m) for m in messages]


@pytest.mark.parametrize("shape", SHAPES)
@given(script=scripts())
@settings(deadline=None)
def test_a_view_of_the_same_shape_shows_the_originals(shape: Shape, script: list[Scene]) -> None:
    messages = write(script, shape)
    assert problems(messages, shape) == []
    shown = show(messages, shape)
    assert normal(shown) == normal(messages)
    assert changed_thinking(messages, shown) == []
    assert formats.validate(shown, shape) == ()


@pytest.mark.thorough
@pytest.mark.parametrize("target", SHAPES)
@pytest.mark.parametrize("source", SHAPES)
@given(script=scripts())
@settings(deadline=None)
def test_a_view_in_another_shape_is_valid(
    source: Shape, target: Shape, script: list[Scene]
) -> None:
    shown = show(write(script, source), source, target)
    assert problems(shown, target) == []
    assert formats.validate(shown, target) == ()


@pytest.mark.thorough
@pytest.mark.parametrize("target", SHAPES)
@pytest.mark.parametrize("source", SHAPES)
@given(script=scripts())
@settings(deadline=None)
def test_another_shape_loses_no_call_result_or_word(
    source: Shape, target: Shape, script: list[Scene]
) -> None:
    messages = write(script, source)
    there = [p for m in recorded(messages, source) for p in m.message.parts]
    shown = recorded(show(messages, source, target), target)
    back = [p for m in shown for p in m.message.parts]
    for kind in (ToolCall, Text):
        assert [p for p in back if isinstance(p, kind)] == [p for p in there if isinstance(p, kind)]
    answered = [(p.call, p.text) for p in there if isinstance(p, ToolResult)]
    assert [(p.call, p.text) for p in back if isinstance(p, ToolResult)] == answered


@given(script=scripts())
@settings(deadline=None)
def test_what_a_transcript_scatters_is_put_together_again(script: list[Scene]) -> None:
    messages = write(script, "anthropic")
    assert normal(show(scattered(messages), "anthropic")) == normal(messages)
    assert problems(show(scattered(messages), "anthropic", "openai"), "openai") == []


@pytest.mark.parametrize("target", SHAPES)
@given(script=scripts(max_steps=6), data=st.data())
@settings(max_examples=25, deadline=None)
def test_any_messages_in_any_order_become_a_valid_view(
    target: Shape, script: list[Scene], data: st.DataObject
) -> None:
    source = data.draw(st.sampled_from(SHAPES))
    shown = recorded(write(script, source), source)
    some = data.draw(st.lists(st.sampled_from(shown), max_size=12))
    view = formats.render(some, target)
    assert [p for p in problems(view, target) if "made twice" not in p] == []


def call(name: str, **more: Any) -> Json:
    return {"type": "tool_use", "id": name, "name": "Bash", "input": {}, **more}


def result(name: str, text: Any = "ok", **more: Any) -> Json:
    return {"type": "tool_result", "tool_use_id": name, "content": text, **more}


def user(*blocks: Json) -> Json:
    return {"role": "user", "content": list(blocks)}


def said(*blocks: Json) -> Json:
    return {"role": "assistant", "content": list(blocks)}


def text(words: str) -> Json:
    return {"type": "text", "text": words}


HELLO: Json = {"role": "user", "content": "hello"}


def test_a_cut_replaces_the_result_and_keeps_its_id_and_error() -> None:
    message = user(result("a", [text("long")], is_error=True), text("go on"))
    shown = ToolResult(call="a", text="short", is_error=True)
    assert cut_one(message, "anthropic", 0, shown) == user(
        result("a", "short", is_error=True), text("go on")
    )
    chat: Json = {"role": "tool", "tool_call_id": "a", "content": "long"}
    assert cut_one(chat, "openai", 0, shown) == {**chat, "content": "short"}
    item: Json = {"type": "function_call_output", "call_id": "a", "output": "long"}
    assert cut_one(item, "responses", 0, shown) == {**item, "output": "short"}


def test_a_cut_replaces_the_arguments_of_one_call() -> None:
    shown = ToolCall(id="b", name="Bash", arguments={"command": "…"})
    message = said(text("so"), call("a"), call("b"))
    assert cut_one(message, "anthropic", 2, shown) == said(
        text("so"), call("a"), call("b", input={"command": "…"})
    )
    functions: list[Json] = [
        {"id": i, "type": "function", "function": {"name": "Bash", "arguments": "{}"}} for i in "ab"
    ]
    chat: Json = {"role": "assistant", "content": "so", "tool_calls": functions}
    cut = cut_one({**chat, "reasoning_content": "hm"}, "openai", 3, shown)
    assert cut["tool_calls"][0] == functions[0]
    assert cut["tool_calls"][1]["function"]["arguments"] == '{"command":"…"}'
    item: Json = {"type": "function_call", "call_id": "b", "name": "Bash", "arguments": "{}"}
    assert cut_one(item, "responses", 0, shown)["arguments"] == '{"command":"…"}'


def test_a_cut_of_a_legacy_or_custom_call_keeps_its_kind() -> None:
    shown = ToolCall(id="a", name="patch", arguments={"input": "…"})
    legacy: Json = {
        "role": "assistant",
        "content": None,
        "function_call": {"name": "patch", "arguments": "{}"},
    }
    cut = cut_one(legacy, "openai", 0, shown)
    assert cut["function_call"] == {"name": "patch", "arguments": '{"input":"…"}'}
    custom: Json = {"id": "a", "type": "custom", "custom": {"name": "patch", "input": "long"}}
    chat: Json = {"role": "assistant", "content": None, "tool_calls": [custom]}
    assert cut_one(chat, "openai", 0, shown)["tool_calls"][0]["custom"]["input"] == "…"
    item: Json = {"type": "custom_tool_call", "call_id": "a", "name": "patch", "input": "long"}
    assert cut_one(item, "responses", 0, shown)["input"] == "…"
    other = ToolCall(id="a", name="patch", arguments={"cut": True})
    assert cut_one(item, "responses", 0, other)["input"] == '{"cut":true}'


@pytest.mark.parametrize("shape", SHAPES)
def test_a_cut_replaces_a_text(shape: Shape) -> None:
    kind = "input_text" if shape == "responses" else "text"
    item = {"type": "message"} if shape == "responses" else {}
    listed: Json = {
        **item,
        "role": "user",
        "content": [{"type": kind, "text": "a"}, {"type": kind, "text": "b"}],
    }
    cut = cut_one(listed, shape, 1, Text(text="…"))
    assert cut["content"] == [{"type": kind, "text": "a"}, {"type": kind, "text": "…"}]
    assert cut_one({**item, "role": "user", "content": "a"}, shape, 0, Text(text="…")) == {
        **item,
        "role": "user",
        "content": "…",
    }


def test_no_empty_text_reaches_the_messages_api() -> None:
    messages: list[Json] = [
        {"role": "user", "content": " \n"},
        said(text(""), call("a")),
        user(result("a", [text(""), text("ok")]), text("  ")),
        said(),
    ]
    assert show(messages, "anthropic") == [
        {"role": "user", "content": "(empty)"},
        said(call("a")),
        user(result("a", [text("ok")])),
        {"role": "assistant", "content": "(empty)"},
    ]


def test_a_call_that_never_got_its_result_gets_a_stand_in() -> None:
    messages = [HELLO, said(call("a"), call("b")), user(result("a")), user(text("stop")), said()]
    shown = show(messages, "anthropic")
    gap = result("b", "(no result was recorded)", is_error=True)
    assert shown[2] == user(result("a"), gap)
    for target in SHAPES:
        assert problems(show(messages, "anthropic", target), target) == []


def test_a_result_without_its_call_is_shown_as_words() -> None:
    messages = [HELLO, user(result("a", "42"), text("go on"))]
    assert show(messages, "anthropic")[1] == user(text("[result of a]\n42"), text("go on"))
    for target in SHAPES:
        assert problems(show(messages, "anthropic", target), target) == []


def test_results_that_came_while_the_model_still_called_are_put_behind_all_calls() -> None:
    messages = [
        HELLO,
        said(call("a")),
        said(call("b")),
        user(result("b")),
        said(call("c")),
        user(text("hurry")),
        user(result("a"), text("x")),
        user(result("c")),
        said(text("done")),
    ]
    assert show(messages, "anthropic") == [
        HELLO,
        said(call("a"), call("b"), call("c")),
        user(result("b"), result("a"), result("c"), text("x")),
        user(text("hurry")),
        said(text("done")),
    ]


def test_thinking_between_two_calls_of_a_turn_stays_there() -> None:
    def thought(words: str) -> Json:
        return {"type": "thinking", "thinking": words, "signature": f"{words}=="}

    blocks = [thought("x"), call("a"), thought("y"), call("b")]
    lines = [HELLO, *(said(block) for block in blocks), user(result("a")), user(result("b"))]
    assert show(lines, "anthropic") == [HELLO, said(*blocks), user(result("a"), result("b"))]


def test_thinking_after_an_unanswered_call_begins_a_turn_of_its_own() -> None:
    thought: Json = {"type": "thinking", "thinking": "hm", "signature": "s"}
    shown = show([HELLO, said(call("a")), said(thought, call("b")), user(result("b"))], "anthropic")
    gap = result("a", "(no result was recorded)", is_error=True)
    assert shown[1:] == [said(call("a")), user(gap), said(thought, call("b")), user(result("b"))]


def test_system_messages_between_a_call_and_its_result_follow_it() -> None:
    note: Json = {"role": "system", "content": "hook context", "output_config": {}}
    messages = [HELLO, said(call("a")), note, user(result("a")), said(text("ok"))]
    assert show(messages, "anthropic") == [HELLO, messages[1], messages[3], note, messages[4]]


def test_the_first_message_is_made_the_users() -> None:
    system: Json = {"role": "system", "content": "be brief"}
    assert show([system, HELLO], "openai", "anthropic")[0] == user(
        text("[system message]"), text("be brief")
    )
    assert show([system, HELLO], "anthropic")[0]["role"] == "user"
    assert show([said(text("hi"))], "anthropic")[0]["role"] == "user"
    assert show([system, HELLO], "anthropic", "openai")[0] == system


def test_thinking_that_leads_nowhere_is_left_out() -> None:
    thought: Json = {"type": "thinking", "thinking": "hm", "signature": "s"}
    assert show([HELLO, said(thought), HELLO], "anthropic") == [HELLO, HELLO]
    assert show([HELLO, said(thought)], "anthropic", "openai") == [HELLO]
    item: Json = {"type": "reasoning", "id": "rs_1", "summary": []}
    ask: Json = {"type": "message", "role": "user", "content": "x"}
    assert show([ask, item, ask], "responses") == [ask, ask]


def test_media_and_blank_results_cross_as_words() -> None:
    image: Json = {"type": "image", "source": {"type": "base64", "media_type": "image/png"}}
    messages = [
        user(image, text("see")),
        said(call("a.b")),
        user(result("a.b", [image])),
    ]
    shown = show(messages, "anthropic", "openai")
    assert shown[0]["content"] == [text("[image/png]"), text("see")]
    assert shown[2]["content"] == "[media]"
    assert cut_one(messages[0], "anthropic", 0, Text(text="[cut]"))["content"][0] == text("[cut]")


def test_ids_the_messages_api_would_refuse_are_respelled() -> None:
    calls = [{"id": "a:1", "type": "function", "function": {"name": "x", "arguments": "{"}}]
    messages: list[Json] = [
        HELLO,
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": "a:1", "content": ""},
    ]
    shown = show(messages, "openai", "anthropic")
    assert shown[1]["content"][0]["id"] == shown[2]["content"][0]["tool_use_id"] == "a_1"
    assert shown[1]["content"][0]["input"] == {"_raw": "{"}
    assert show(messages, "openai", "responses")[1]["arguments"] == "{"


def test_a_legacy_function_call_is_paired_by_its_name() -> None:
    messages: list[Json] = [
        HELLO,
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": ""}},
        {"role": "function", "name": "f", "content": "1"},
        HELLO,
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": ""}},
        HELLO,
    ]
    shown = show(messages, "openai")
    assert shown[:5] == messages[:5]
    assert shown[5] == {"role": "function", "name": "f", "content": "(no result was recorded)"}
    assert problems(show(messages, "openai", "anthropic"), "anthropic") == []


def test_a_built_in_tools_call_is_paired_but_not_invented() -> None:
    shell: Json = {"type": "local_shell_call", "call_id": "s", "action": {"command": ["ls"]}}
    out: Json = {"type": "local_shell_call_output", "call_id": "s", "output": "README.md"}
    ask: Json = {"type": "message", "role": "user", "content": "x"}
    assert show([ask, shell, out], "responses") == [ask, shell, out]
    assert show([ask, shell, ask], "responses") == [ask, shell, ask]
    assert show([ask, shell, out], "responses", "anthropic")[2] == user(result("s", "README.md"))


def test_assistant_messages_of_one_turn_become_one_chat_message() -> None:
    def function(name: str) -> Json:
        return {"id": name, "type": "function", "function": {"name": "x", "arguments": "{}"}}

    messages: list[Json] = [
        {"role": "assistant", "content": "so", "reasoning_content": "hm"},
        {"role": "assistant", "content": None, "tool_calls": [function("a")]},
        {"role": "assistant", "content": "", "tool_calls": [function("b")]},
        {"role": "tool", "tool_call_id": "a", "content": "1"},
        {"role": "tool", "tool_call_id": "b", "content": "2"},
    ]
    merged = show(messages, "openai")[0]
    assert merged == {**messages[0], "tool_calls": [function("a"), function("b")]}
    assert isinstance(formats.read("openai", json.dumps(merged))[1][0], Thinking)
