"""A loop gets the same window over MCP as in process, whatever happens to the session meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcp_compaction import open_store
from mcp_compaction.adapters.loop import LoopKit
from mcp_compaction.core.log.pinned import PINNED_LABEL
from mcp_compaction.formats.turns import split_turns
from tests.adapters.kits import WAYS, history, kit_of, step, text_of, user
from tests.adapters.scripted import Refused, blocks_of, use
from tests.checkers import Json, problems
from tests.server.talking import talk

pytestmark = pytest.mark.anyio

COMPRESS = use("c", "compress_context", reason="all read", force=True)


async def pin_from_outside(folder: Path, text: str) -> None:
    """Pin as the command line does, in a process of its own."""
    async with open_store(home=folder / "store", project="/p") as store:
        await (await store.session("loop")).pin(text, by="user", scope="session")


async def test_both_ways_give_the_same_messages(memory_path: Path) -> None:
    messages = [*history(20), user("Now look closer."), *history(9)[1:], *step(30, "x\n" * 9000)]
    # A turn in several messages, as some hosts write it.
    messages.insert(37, {"role": "assistant", "content": [{"type": "text", "text": "One more."}]})
    given: list[list[Json]] = []
    for way in WAYS:
        async with kit_of(way, memory_path / way, offload_over_tokens=2_000) as kit:
            first = await kit.fit(messages[:42])
            await kit.call(COMPRESS)
            given.append([*first, *await kit.fit(messages)])
            assert kit.failures == 0
    in_process, over_mcp = given
    assert over_mcp == in_process
    assert "[digest d1" in text_of(over_mcp)
    assert "recall_archived refs" in text_of(over_mcp[-1:])


@pytest.mark.parametrize("way", WAYS)
async def test_the_limit_that_a_provider_names_becomes_the_window(
    memory_path: Path, way: str
) -> None:
    errors = ["maximum context length is 4096 tokens", "maximum context length is 90000 tokens"]

    async def ask(sent: list[Json]) -> Json:
        if errors:
            raise Refused(errors.pop(0))
        return {"role": "assistant", "content": "Done."}

    async with kit_of(way, memory_path) as kit:
        with pytest.raises(Refused):
            await kit.send(ask, history(12))
        assert (await kit.send(ask, history(12)))["content"] == "Done."
        stats = await kit.call(use("s", "context_stats"))
        assert "of 4.1k tokens" in str(stats["content"])
        assert kit.failures == 0


@pytest.mark.parametrize("way", WAYS)
async def test_what_looks_like_a_record_of_ours_and_was_said_keeps_its_number(
    memory_path: Path, way: str
) -> None:
    typed = user(f"{PINNED_LABEL}\np9 constraint, by user: I copied this from elsewhere.")
    messages = [user("Read on."), {"role": "assistant", "content": "Yes?"}, typed, *history(4)[1:]]
    async with kit_of(way, memory_path) as kit:
        assert await kit.fit(messages) == messages
    async with kit_of(way, memory_path) as kit:  # the loop was started anew
        assert await kit.fit(messages) == messages
        assert kit.failures == 0
        messages += history(14)[9:]
        await kit.fit(messages)
        await kit.call(use("c", "compress_context", reason="r", span="m4..m9", force=True))
        sent = await kit.apply(messages)
        assert not any(one in sent for one in messages[3:9])
        assert blocks_of(sent[2])[0]["text"] == typed["content"]
        assert all(one is other for one, other in zip(sent[-4:], messages[-4:], strict=True))
        assert not problems(sent, "anthropic")


@pytest.mark.parametrize("way", WAYS)
async def test_messages_that_the_loop_has_no_more_come_back_from_the_store(
    memory_path: Path, way: str
) -> None:
    messages = history(12)
    async with kit_of(way, memory_path) as kit:
        await kit.fit(messages)
        await kit.call(COMPRESS)
        left = await kit.apply(messages)
        assert len(left) < len(messages)
    async with kit_of(way, memory_path) as kit:  # and the loop was started anew with the rest
        assert await kit.fit(left) == left
        await kit.call(use("k", "restore_context", ref="c1"))
        sent = await kit.apply(left)
        assert sent == messages
        assert sent[-1] is left[-1]
        assert not problems(sent, "anthropic")
        assert kit.failures == 0


async def test_more_messages_come_back_than_one_answer_may_have(memory_path: Path) -> None:
    messages = [user("Begin.")]
    for number in range(550):
        messages += [{"role": "assistant", "content": f"did {number}"}, user(f"do {number}")]
    async with kit_of("over MCP", memory_path) as kit:
        await kit.fit(messages)
        await kit.call({**COMPRESS, "input": {"reason": "r", "force": True, "target_percent": 5}})
        left = await kit.apply(messages)
        assert len(left) < 100
        await kit.call(use("k", "restore_context", ref="c1", force=True))
        assert await kit.apply(left) == messages
        assert kit.failures == 0


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("again", ["Second try.", "First try."])
async def test_an_answer_that_the_loop_throws_away_is_gone_and_the_loop_goes_on(
    memory_path: Path, way: str, again: str
) -> None:
    answers = ["Yes?", "First try.", again, *(f"Answer {n}." for n in range(3))]

    async def ask(sent: list[Json]) -> Json:
        return {"role": "assistant", "content": answers.pop(0), "usage": {"input_tokens": 99}}

    async with kit_of(way, memory_path) as kit:
        messages = [user("Read on.")]
        messages += kit.answer_of(await kit.send(ask, messages))
        messages.append(user("Step one."))
        await kit.send(ask, messages)
        for number in range(4):
            messages += kit.answer_of(await kit.send(ask, messages))
            messages.append(user(f"Go on, {number}."))
            assert await kit.fit(messages) == messages
        assert kit.failures == 0
        found = await kit.call(use("r", "recall_archived", query=again))
        assert "in your window" in str(found["content"])


@pytest.mark.parametrize("way", WAYS)
async def test_a_loop_goes_on_where_another_process_wrote_to_its_session(
    memory_path: Path, way: str
) -> None:
    async def ask(sent: list[Json]) -> Json:
        return {"role": "assistant", "content": "Done."}

    async with kit_of(way, memory_path) as kit:
        messages = history(2)
        await kit.fit(messages)
        async with open_store(home=memory_path / "store", project="/p") as store:
            await (await store.session("loop")).record([user("From somewhere else.")])
        messages += kit.answer_of(await kit.send(ask, messages))
        messages.append(user("And now?"))
        await kit.send(ask, messages)
        assert kit.failures == 0
        assert "is_error" not in await kit.call(use("s", "recall_archived", query="And now"))


async def test_of_two_loops_each_is_given_its_own_history(memory_path: Path) -> None:
    begun = [user("Begin.")]
    longer = [*begun, {"role": "assistant", "content": "Begun."}, user("Feed the zebra.")]
    other_way = [*begun, {"role": "assistant", "content": "Yes?"}, user("Feed the giraffe.")]
    async with talk(memory_path) as server:
        one, other = (LoopKit(server.client, session="loop") for _ in range(2))
        assert await one.fit(begun) == begun
        assert await other.fit(longer) == longer
        await pin_from_outside(memory_path, "Never push.")  # which makes another view
        for kit, messages in ((one, begun), (one, begun), (one, other_way), (other, longer)):
            sent = split_turns(await kit.fit(messages))
            assert [message for message in sent if message in messages] == messages
            assert len(sent) <= len(messages) + 1
        await one.record({"role": "assistant", "content": "Fed."})
        fed = [*other_way, {"role": "assistant", "content": "Fed."}, user("And now?")]
        sent = split_turns(await one.fit(fed))
        assert [message for message in sent if message in fed] == fed
        assert "zebra" not in text_of(sent)
        assert one.failures + other.failures == 0
