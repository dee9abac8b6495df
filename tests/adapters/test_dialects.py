"""The kit takes each provider's dialect: lists and bodies, dicts and objects of an SDK."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from mcp_compaction.errors import InputError
from mcp_compaction.model import Shape
from tests.adapters.kits import LONG_WAYS, RULE, history, kit_of, text_of, user
from tests.adapters.scripted import Sdk, use
from tests.checkers import Json, problems

pytestmark = pytest.mark.anyio

SHAPES: tuple[Shape, ...] = ("anthropic", "openai", "responses")

# What it offers and answers


async def test_calls_and_results_are_in_each_dialect(tmp_path: Path) -> None:
    arguments = json.dumps({"query": "nothing"})
    function = {"name": "recall_archived", "arguments": arguments}
    async with kit_of("in process", tmp_path, shape="openai") as kit:
        call = {"id": "call_1", "type": "function", "function": function}
        assert kit.owns(call)
        result = await kit.call(call)
        assert (result["role"], result["tool_call_id"]) == ("tool", "call_1")
        bad = await kit.call({"id": "x", "function": {**function, "arguments": "{"}})
        assert "no JSON object" in str(bad["content"])
        response: Json = {"choices": [{"message": {"role": "assistant", "tool_calls": [call]}}]}
        assert kit.calls_of(response) == [call]
    async with kit_of("in process", tmp_path, shape="responses") as kit:
        item = {"type": "function_call", "call_id": "call_2", **function}
        result = await kit.call(item)
        assert (result["type"], result["call_id"]) == ("function_call_output", "call_2")
        assert kit.calls_of({"output": [item]}) == [item]


@pytest.mark.parametrize("way", LONG_WAYS)
async def test_objects_of_an_sdk_are_taken_as_they_are(tmp_path: Path, way: str) -> None:
    block = Sdk(**use("t0", "context_stats"))
    response = Sdk(role="assistant", content=[block.fields], usage={"input_tokens": 900})
    async with kit_of(way, tmp_path) as kit:
        messages: list[Any] = [user("Go on.")]
        await kit.fit(messages)
        await kit.record(response)
        assert kit.owns(block)
        messages.append({"role": "assistant", "content": [block]})
        messages.append({"role": "user", "content": [await kit.call(block)]})
        sent = await kit.fit(messages)
        assert kit.failures == 0
        assert not problems(sent, "anthropic")
        found = await kit.call(use("x", "recall_archived", refs="m2 m3"))
        assert "2 found" in str(found["content"])  # the answer was recorded once


# The other dialects


@pytest.mark.parametrize("way", LONG_WAYS)
@pytest.mark.parametrize("shape", ["openai", "responses"])
async def test_a_loop_in_another_dialect_compresses_and_stays_valid(
    tmp_path: Path, way: str, shape: Shape
) -> None:
    messages: list[Json] = [{"role": "user", "content": RULE}]
    async with kit_of(way, tmp_path, shape=shape) as kit:
        for number in range(20):
            name = "compress_context" if number == 18 else "Read"
            given = {"reason": "read", "force": True} if number == 18 else {"path": str(number)}
            sent = await kit.fit(messages)
            assert not problems(sent, shape)
            usage = len(text_of(sent)) // 4
            response = _answer(shape, f"c{number}", name, json.dumps(given), usage)
            await kit.record(response)
            messages += kit.answer_of(response)
            (call,) = kit.calls_of(response)
            messages.append(
                await kit.call(call) if kit.owns(call) else _output(shape, f"c{number}")
            )
            messages = await kit.apply(messages)
        assert kit.failures == 0
        assert not problems(messages, shape)
        assert "[digest d1" in text_of(messages)


def _answer(shape: str, id: str, name: str, arguments: str, usage: int) -> Json:
    if shape == "anthropic":
        content = [use(id, name, **json.loads(arguments))]
        return {"role": "assistant", "content": content, "usage": {"input_tokens": usage}}
    if shape == "responses":
        item = {"type": "function_call", "call_id": id, "name": name, "arguments": arguments}
        return {"output": [item], "usage": {"input_tokens": usage}}
    call = {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    return {"choices": [{"message": message}], "usage": {"prompt_tokens": usage}}


def _output(shape: str, id: str) -> Json:
    text = f"row of {id}\n" * 90
    if shape == "responses":
        return {"type": "function_call_output", "call_id": id, "output": text}
    return {"role": "tool", "tool_call_id": id, "content": text}


# Bodies, results, and calls that are no coroutines


def _body(shape: Shape, messages: list[Json]) -> Json:
    match shape:
        case "anthropic":
            return {"model": "m", "max_tokens": 9, "system": RULE, "messages": messages}
        case "openai":
            return {"model": "m", "temperature": 0, "messages": messages}
        case "responses":
            return {"model": "m", "instructions": RULE, "store": False, "input": messages}


@pytest.mark.parametrize("way", LONG_WAYS)
@pytest.mark.parametrize("shape", SHAPES)
async def test_a_request_body_is_taken_and_given_back_as_one(
    memory_path: Path, way: str, shape: Shape
) -> None:
    messages = [user("Read on.")]
    body = _body(shape, messages)
    body["timeout"] = object()  # what an SDK takes beside the request is none of ours
    asked: list[Json] = []

    def ask(sent: Json) -> Json:
        asked.append(sent)
        return _answer(shape, "c1", "Read", "{}", 0)

    async with kit_of(way, memory_path, shape=shape) as kit:
        response = await kit.send(ask, body)
        (sent,) = asked
        assert sent == body
        assert sent[_key(shape)][0] is messages[0]
        messages += kit.answer_of(response)
        (call,) = kit.calls_of(response)
        messages += kit.messages_of([kit.result_of(call, "one line\n" * 900)])
        for number in range(12):
            response = _answer(shape, f"r{number}", "Read", "{}", 0)
            messages += kit.answer_of(response)
            (call,) = kit.calls_of(response)
            messages += kit.messages_of([kit.result_of(call, f"row {number}\n" * 200)])
        assert not problems((await kit.fit(body))[_key(shape)], shape)
        asked_for = '{"reason": "r", "force": true, "target_percent": 20}'
        compress = _answer(shape, "z", "compress_context", asked_for, 0)
        messages += kit.answer_of(compress)
        messages += kit.messages_of([await kit.call(c) for c in kit.calls_of(compress)])
        after = await kit.apply(body)
        assert kit.failures == 0
    assert after.keys() == body.keys()
    assert len(text_of(after[_key(shape)])) < len(text_of(messages)) / 2
    assert not problems(after[_key(shape)], shape)


def _key(shape: Shape) -> str:
    return "input" if shape == "responses" else "messages"


async def test_results_are_in_each_dialect(memory_path: Path) -> None:
    made: dict[str, list[Json]] = {}
    for shape in SHAPES:
        async with kit_of("in process", memory_path, shape=shape) as kit:
            (call,) = kit.calls_of(_answer(shape, "c1", "Read", "{}", 9))
            made[shape] = kit.messages_of([kit.result_of(call, "no such file", is_error=True)])
            assert kit.messages_of([]) == []
            with pytest.raises(InputError, match="no tool call"):
                kit.result_of({"type": "text", "text": "x"}, "y")
    result = {"tool_use_id": "c1", "content": "no such file", "is_error": True}
    assert made == {
        "anthropic": [{"role": "user", "content": [{"type": "tool_result", **result}]}],
        "openai": [{"role": "tool", "tool_call_id": "c1", "content": "no such file"}],
        "responses": [{"type": "function_call_output", "call_id": "c1", "output": "no such file"}],
    }


class _Block(BaseModel):
    type: Literal["tool_use"] = "tool_use"
    id: str
    name: str
    input: dict[str, Any]
    cache: str | None = None


class _Response(BaseModel):
    """An object that has `model_dump` and no `to_dict`, whose role is a default."""

    role: Literal["assistant"] = "assistant"
    content: list[_Block]
    stop_reason: str | None = None


async def test_an_object_that_has_only_model_dump_is_taken(memory_path: Path) -> None:
    response = _Response(content=[_Block(id="t0", name="context_stats", input={})])
    async with kit_of("in process", memory_path) as kit:
        assert await kit.send(lambda _: response, [user("Go on.")]) is response
        assert kit.calls_of(response) == [use("t0", "context_stats")]
        messages: list[Any] = [user("Go on."), response]
        messages += kit.messages_of([await kit.call(response.content[0])])
        assert not problems(await kit.fit(messages), "anthropic")
        assert kit.failures == 0


class _Refused(Exception):
    status_code = 413


async def test_a_status_of_413_is_an_overflow_whatever_its_text(memory_path: Path) -> None:
    errors = [_Refused("<html>nginx</html>")]

    def ask(_: list[Json]) -> Json:
        if errors:
            raise errors.pop()
        return {"role": "assistant", "content": "Done."}

    async with kit_of("in process", memory_path) as kit:
        assert (await kit.send(ask, history(9)))["content"] == "Done."


# What is no answer


@pytest.mark.parametrize("odd", [None, {"error": "overloaded"}, {"role": "user"}, 7, []])
async def test_what_is_no_answer_adds_nothing_and_is_counted(memory_path: Path, odd: Any) -> None:
    async with kit_of("in process", memory_path) as kit:
        assert kit.answer_of(odd) == []
        assert kit.calls_of(odd) == []
        assert kit.failures == 2
