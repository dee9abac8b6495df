"""Both validators, ours and the tests' own, name every planted fault."""

from __future__ import annotations

import pytest

from mcp_compaction import formats
from mcp_compaction.model import Shape
from tests.checkers import changed_thinking, problems
from tests.strategies import Json


def call(*names: str) -> Json:
    blocks: list[Json] = [{"type": "tool_use", "id": n, "name": "x", "input": {}} for n in names]
    return {"role": "assistant", "content": blocks}


def result(*names: str, after: str | None = None) -> Json:
    blocks: list[Json] = [{"type": "tool_result", "tool_use_id": n, "content": "1"} for n in names]
    return {"role": "user", "content": [*blocks, *([text(after)] if after is not None else [])]}


def text(words: str) -> Json:
    return {"type": "text", "text": words}


def chat_call(*names: str) -> Json:
    function = {"name": "x", "arguments": "{}"}
    calls = [{"id": n, "type": "function", "function": function} for n in names]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def chat_result(name: str) -> Json:
    return {"role": "tool", "tool_call_id": name, "content": "1"}


def item(kind: str, name: str) -> Json:
    return {"type": kind, "call_id": name, "name": "x", "arguments": "{}", "output": ""}


USER: Json = {"role": "user", "content": "hi"}
ANSWER: Json = {"role": "assistant", "content": "ok"}
ITEM: Json = {"type": "message", "role": "user", "content": "hi"}
CALL, OUTPUT = "function_call", "function_call_output"

FAULTS: dict[str, tuple[Shape, list[Json]]] = {
    "a result without a call": ("anthropic", [USER, result("a")]),
    "a result of another call": ("anthropic", [USER, call("a"), result("a", "b")]),
    "a result given twice": ("anthropic", [USER, call("a"), result("a", "a")]),
    "a call without result": ("anthropic", [USER, call("a", "b"), result("a"), ANSWER]),
    "a call and no answer": ("anthropic", [USER, call("a"), USER, ANSWER]),
    "a result too late": ("anthropic", [USER, call("a"), USER, result("a")]),
    "results in two messages": ("anthropic", [USER, call("a", "b"), result("a"), result("b")]),
    "a call made twice": ("anthropic", [USER, call("a", "a"), result("a")]),
    "an empty text": ("anthropic", [USER, call("a"), result("a", after=" ")]),
    "an empty content": ("anthropic", [{"role": "user", "content": []}]),
    "an empty string": ("anthropic", [{"role": "user", "content": ""}]),
    "the assistant first": ("anthropic", [ANSWER, USER]),
    "system first": ("anthropic", [{"role": "system", "content": "x"}, USER]),
    "results not first": (
        "anthropic",
        [USER, call("a"), {"role": "user", "content": [text("x"), *result("a")["content"]]}],
    ),
    "results by the assistant": (
        "anthropic",
        [USER, call("a"), {"role": "assistant", "content": result("a")["content"]}, USER],
    ),
    "a foreign role": ("anthropic", [USER, {"role": "tool", "content": "x"}]),
    "an orphan tool message": ("openai", [USER, chat_result("a")]),
    "a tool message of another call": ("openai", [chat_call("a"), chat_result("b"), USER]),
    "a tool message twice": ("openai", [chat_call("a"), chat_result("a"), chat_result("a")]),
    "a chat call without result": ("openai", [chat_call("a", "b"), chat_result("a"), USER]),
    "a chat call passed over": ("openai", [chat_call("a"), ANSWER, chat_result("a")]),
    "a chat call made twice": ("openai", [chat_call("a", "a"), chat_result("a")]),
    "words before the result": ("openai", [chat_call("a"), USER, chat_result("a")]),
    "a chat role nobody knows": ("openai", [{"role": "bot", "content": "x"}]),
    "a user without words": ("openai", [{"role": "user", "content": None}]),
    "an output without a call": ("responses", [ITEM, item(OUTPUT, "a")]),
    "an output twice": ("responses", [item(CALL, "a"), item(OUTPUT, "a"), item(OUTPUT, "a")]),
    "a call without output": ("responses", [item(CALL, "a"), ITEM]),
    "one of two without output": (
        "responses",
        [item(CALL, "a"), item(CALL, "b"), item(OUTPUT, "a"), ITEM],
    ),
    "an item called twice": (
        "responses",
        [item(CALL, "a"), item(CALL, "a"), item(OUTPUT, "a"), ITEM],
    ),
    "an output too late": ("responses", [item(CALL, "a"), ITEM, item(OUTPUT, "a")]),
    "reasoning for nothing": ("responses", [{"type": "reasoning", "summary": []}, ITEM]),
    "reasoning at the end": ("responses", [ITEM, {"type": "reasoning", "summary": []}]),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found_by_both(fault: str) -> None:
    shape, messages = FAULTS[fault]
    assert problems(messages, shape)
    assert formats.validate(messages, shape)


SOUND: dict[str, tuple[Shape, list[Json]]] = {
    "calls in flight": ("anthropic", [USER, call("a", "b")]),
    "half answered at the end": ("anthropic", [USER, call("a", "b"), result("b")]),
    "an id used again": ("anthropic", [USER, call("a"), result("a"), call("a"), result("a")]),
    "two users": ("anthropic", [USER, USER, ANSWER, ANSWER]),
    "system inside": ("anthropic", [USER, {"role": "system", "content": "x"}, ANSWER]),
    "words after results": ("anthropic", [USER, call("a"), result("a", after="go on"), ANSWER]),
    "two assistants, one turn": ("anthropic", [USER, ANSWER, call("a"), result("a")]),
    "chat in flight": ("openai", [chat_call("a", "b"), chat_result("b")]),
    "chat answered": ("openai", [chat_call("a", "b"), chat_result("b"), chat_result("a"), USER]),
    "items in flight": ("responses", [ITEM, item(CALL, "a")]),
    "items answered": ("responses", [item(CALL, "a"), item(OUTPUT, "a"), item(CALL, "a")]),
}


@pytest.mark.parametrize("case", SOUND)
def test_what_a_provider_accepts_is_accepted_by_both(case: str) -> None:
    shape, messages = SOUND[case]
    assert problems(messages, shape) == []
    assert formats.validate(messages, shape) == ()


THOUGHT: Json = {"type": "thinking", "thinking": "hm", "signature": "s"}


@pytest.mark.parametrize(
    "content",
    [
        [{"type": "thinking", "thinking": "hm"}, text("x")],
        [text("x"), THOUGHT],
        [*call("a")["content"], THOUGHT, text("x")],
    ],
)
def test_misplaced_thinking_is_found(content: list[Json]) -> None:
    assert problems([USER, {"role": "assistant", "content": content}], "anthropic")


@pytest.mark.parametrize(
    "changed",
    [
        {"role": "assistant", "content": [{**THOUGHT, "thinking": "h"}, *call("a")["content"]]},
        {"role": "assistant", "content": [{**THOUGHT, "signature": "t"}, *call("a")["content"]]},
        {"role": "assistant", "content": [THOUGHT, text("x")]},
    ],
)
def test_changed_thinking_is_found(changed: Json) -> None:
    original: Json = {"role": "assistant", "content": [THOUGHT, *call("a")["content"]]}
    assert changed_thinking([USER, original], [original]) == []
    assert changed_thinking([USER, original], [USER, changed])


def test_changed_reasoning_is_found() -> None:
    thought: Json = {"type": "reasoning", "encrypted_content": "e"}
    original = [thought, item(CALL, "a")]
    assert changed_thinking(original, [ITEM, *original]) == []
    assert changed_thinking(original, [{**thought, "encrypted_content": "f"}, item(CALL, "a")])
    assert changed_thinking(original, [thought, item(CALL, "b")])
