"""The kit for home-made loops: what it offers, sends, answers and survives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mcp_compaction import open_store
from mcp_compaction.adapters.loop import LoopKit
from mcp_compaction.errors import InputError
from tests.adapters.kits import RULE, WAYS, history, kit_of, step, text_of, user
from tests.adapters.scripted import Refused, ScriptedModel, Sdk, blocks_of, run_loop, use
from tests.checkers import Json, problems
from tests.server.talking import talk

pytestmark = pytest.mark.anyio

# What it offers


async def test_the_tools_are_those_of_the_server_without_the_name_of_a_session(
    tmp_path: Path,
) -> None:
    async with talk(tmp_path) as server:
        listed = (await server.client.list_tools()).tools
        kit = LoopKit(server.client, session="loop")
    published: dict[str, Any] = {tool.name: tool for tool in listed}
    assert set(published) - {str(tool["name"]) for tool in kit.tools} == {"record_messages"}
    for tool in kit.tools:
        schema = published[str(tool["name"])].input_schema
        del schema["properties"]["session"]
        assert tool["input_schema"] == schema
        assert tool["description"] == published[str(tool["name"])].description


async def test_a_kit_needs_the_name_of_its_session_over_mcp_and_only_there(tmp_path: Path) -> None:
    async with open_store(home=tmp_path, project="/p") as store:
        with pytest.raises(InputError, match="leave `session` out"):
            LoopKit(await store.session("loop"), session="loop")
    with pytest.raises(InputError, match='pass session="tax-2026"'):
        LoopKit(Broken(OSError))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("messages", "key", "value"),
    [
        ("messages", "thread", {"type": "create"}),
        ("messages", "thread", {"type": "continue", "previous_message_id": "msg_1"}),
        ("input", "previous_response_id", "resp_1"),
    ],
)
async def test_a_conversation_that_its_provider_keeps_is_refused_with_what_to_send(
    tmp_path: Path, way: str, messages: str, key: str, value: Any
) -> None:
    async with kit_of(way, tmp_path) as kit:
        sent: list[Any] = []
        with pytest.raises(InputError, match=f"send the whole history each time, without {key}"):
            await kit.send(sent.append, {messages: [user(RULE)], key: value})
        assert not sent


# What it answers


@pytest.mark.parametrize("way", WAYS)
async def test_a_call_of_ours_gives_its_result_and_whatever_is_wrong_is_one_with_the_next_step(
    tmp_path: Path, way: str
) -> None:
    async with kit_of(way, tmp_path) as kit:
        await kit.fit([user(RULE)])
        assert not kit.owns(use("a", "Read", path="x"))
        assert not kit.owns({"type": "text", "text": "compress_context"})
        pin = use("b", "pin_constraint", text=RULE)
        assert kit.owns(pin)
        pinned = await kit.call(pin)
        assert pinned["tool_use_id"] == "b"
        assert "is_error" not in pinned
        assert "pinned as p1" in str(pinned["content"])
        assert str(pinned["content"]).splitlines()[-1].startswith("fill: ")
        for call, said in (
            (use("c", "compress_context", reason="x", dryrun=True), "Did you mean dry_run?"),
            (use("d", "recall_archived", refs="m99"), "m99"),
            (use("e", "restore_context"), "ref: is required"),
            (use("f", "unpin_constraint", ref="p9"), "p9"),
        ):
            result = await kit.call(call)
            assert result["is_error"] is True, result
            assert said in str(result["content"])
        assert kit.failures == 0
        for call in (
            use("g", "context_stats", detail="full"),
            use("h", "recall_archived"),
            use("i", "recall_archived", refs="m1"),
        ):
            result = await kit.call(call)
            assert "is_error" not in result
            assert RULE in str(result["content"])
        shown = await kit.call(use("j", "recall_archived", query="migrations"))
        assert "may be in your window" in str(shown["content"])
        assert RULE in str(shown["content"])


# When the window is replaced


@pytest.mark.parametrize("way", WAYS)
async def test_a_directive_is_applied_after_the_whole_batch_and_not_before(
    tmp_path: Path, way: str
) -> None:
    messages = history(20)
    ask = use("c", "compress_context", reason="all read", force=True)
    answer: Json = {"role": "assistant", "content": [ask, use("d", "Read", path="z")]}
    async with kit_of(way, tmp_path) as kit:
        await kit.fit(messages)
        await kit.record(answer)
        messages.append(answer)
        assert await kit.apply(messages) is messages  # nobody asked for it yet
        done = await kit.call(ask)
        assert "c1 done" in str(done["content"])
        assert await kit.apply(messages) is messages  # a result is missing
        late = {"type": "tool_result", "tool_use_id": "d", "content": "z"}
        messages.append({"role": "user", "content": [done, late]})
        after = await kit.apply(messages)
        assert len(after) < len(messages)
        assert blocks_of(after[0])[0] == {"type": "text", "text": messages[0]["content"]}
        assert after[-1] is messages[-1]
        assert after[-2] is messages[-2]
        assert not problems(after, "anthropic")
        assert await kit.apply(after) is after
        assert await kit.fit(after) == after
        assert await kit.fit(messages) == after  # who keeps the whole history sends the same


# What is made smaller


@pytest.mark.parametrize("way", WAYS)
async def test_the_indicator_is_one_line_behind_the_request_and_never_recorded(
    tmp_path: Path, way: str
) -> None:
    async with kit_of(way, tmp_path, indicator=True) as kit:
        sent = await kit.fit(history(3))
        line = str(blocks_of(sent[-1])[-1]["text"])
        assert line.startswith("[context budget] fill: ")
        assert "compress" not in line
        full = [*sent, *history(22)[7:]]
        again = await kit.fit(full)
        assert text_of(again).count("[context budget]") == 1
        assert "compress" in str(blocks_of(again[-1])[-1]["text"])
        found = await kit.call(use("x", "recall_archived", query="budget"))
        assert "nothing found" in str(found["content"])


# What goes wrong


@pytest.mark.parametrize("way", WAYS)
async def test_an_overflow_in_the_middle_of_a_tool_batch_is_survived(
    tmp_path: Path, way: str
) -> None:
    calls = [[use(f"t{n}a", "Read", p=1), use(f"t{n}b", "Read", p=2)] for n in range(10)]
    model = ScriptedModel(calls, window=6_000)
    async with kit_of(way, tmp_path) as kit:
        done = await run_loop(kit, model, [user(RULE)], lambda call: f"{call['id']} row\n" * 50)
        assert kit.failures == 0
    assert model.refused >= 1
    assert done[-1]["content"] == [{"type": "text", "text": "All done."}]
    assert RULE in text_of(model.requests[-1])


async def test_an_overflow_that_stays_and_any_other_error_are_the_callers(tmp_path: Path) -> None:
    calls = 0

    async def refuse(_: list[Json]) -> Json:
        nonlocal calls
        calls += 1
        raise Refused("prompt is too long: 9000 tokens > 10 maximum")

    async def fail(_: list[Json]) -> Json:
        raise Refused("overloaded")

    async with kit_of("in process", tmp_path) as kit:
        with pytest.raises(Refused, match="too long"):
            await kit.send(refuse, history(9))
        assert calls == 2
        with pytest.raises(Refused, match="overloaded"):
            await kit.send(fail, history(9))


@pytest.mark.parametrize("kind", [dict[str, Any], Sdk])
async def test_an_overflow_that_comes_as_an_answer_is_retried_once_and_never_recorded(
    tmp_path: Path, kind: type[Any]
) -> None:
    error = kind(error={"code": "context_length_exceeded", "message": "reduce the length"})
    answers = [error, {"role": "assistant", "content": "Done."}, error, error]

    async def answer(_: list[Json]) -> Any:
        return answers.pop(0)

    async with kit_of("in process", tmp_path) as kit:
        assert (await kit.send(answer, history(9)))["content"] == "Done."
        assert await kit.send(answer, history(20)) is error
        assert answers == []
        assert kit.failures == 0


async def test_a_failure_of_ours_is_counted_and_the_loop_goes_on_with_its_own_messages(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    messages = history(20)
    async with kit_of("in process", tmp_path) as kit:
        await kit.fit(messages)
        await kit.call(use("c", "compress_context", reason="read", force=True))
        small = await kit.fit(messages)
        assert len(small) < len(messages)
    # The store is closed now.
    messages += step(30, "more")
    assert await kit.fit(messages) == [*small, *messages[-2:]]
    await kit.record({"role": "assistant", "content": "Done."})
    result = await kit.call(use("d", "pin_constraint", text=RULE))
    assert result["is_error"] is True
    assert kit.failures >= 2
    assert "the loop goes on" in caplog.text
    other = [user("Something else.")]
    assert await kit.fit(other) == other
    odd: list[Any] = [{"role": 7}]
    assert await kit.apply(odd) is odd


class Broken:
    """A client whose calls fail."""

    def __init__(self, error: type[Exception]) -> None:
        self.error = error

    async def call_tool(self, name: str, arguments: Any = None, /) -> Any:
        raise self.error


@pytest.mark.parametrize("error", [MemoryError, RecursionError])
async def test_what_no_program_should_go_on_after_is_raised(error: type[Exception]) -> None:
    kit = LoopKit(Broken(error), session="loop")
    with pytest.raises(error):
        await kit.fit([user("Go on.")])
    with pytest.raises(error):
        await kit.call(use("a", "context_stats"))
    assert kit.failures == 0


async def test_a_broken_connection_leaves_the_messages_as_they_are() -> None:
    kit = LoopKit(Broken(ConnectionError), session="loop")
    messages = history(2)
    assert await kit.fit(messages) == messages
    result = await kit.call(use("a", "context_stats"))
    assert "Go on without it" in str(result["content"])
    assert kit.failures == 2


# Beside the API's own compaction


@pytest.mark.parametrize("way", WAYS)
async def test_what_the_api_compacted_by_itself_goes_out_as_it_is(tmp_path: Path, way: str) -> None:
    messages = history(4)
    block = {"type": "compaction", "content": "Four files were read."}
    messages.append({"role": "assistant", "content": [block, use("t9", "Read", path="9")]})
    messages.append(
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "t9", "content": "nine"}],
        }
    )
    count = len(messages)
    async with kit_of(way, tmp_path) as kit:
        assert await kit.fit(messages) == messages
        for number in range(10, 24):
            messages += step(number, f"row of file {number}\n" * 60)
        await kit.fit(messages)
        await kit.call(use("c", "compress_context", reason="read", force=True))
        sent = await kit.apply(messages)
        assert all(one is other for one, other in zip(sent[:count], messages, strict=False))
        assert len(sent) < len(messages)
        assert not problems(sent, "anthropic")
        assert kit.failures == 0
