"""A host on a model that binds its thinking: what the gateway changes is never refused for it."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from mcp_compaction.gateway import forwarding
from mcp_compaction.hosts.hook_notes import read_trouble
from mcp_compaction.store.connect import store_path
from tests.checkers import BoundReasoning, BoundThinking, Json
from tests.gateway.talking import Host, StrictProvider, open_talk
from tests.gateway.upstream import Asked, write_whole

pytestmark = pytest.mark.anyio

BOUND = "claude-opus-5-5"
RULE = "Never deploy on a Friday."


def thinking_of(messages: list[Json]) -> list[Json]:
    """The thinking blocks of messages."""
    lists: list[list[Json]] = [m["content"] for m in messages if isinstance(m["content"], list)]
    return [block for blocks in lists for block in blocks if block["type"] == "thinking"]


def binding() -> StrictProvider:
    return StrictProvider(thinking=BoundThinking())


def watched(host: Host) -> BoundThinking:
    assert host.provider.thinking is not None
    return host.provider.thinking


async def run(folder: Path, turns: int) -> None:
    async with open_talk(folder, binding(), agent_controlled=False) as (host, store):
        host.model = BOUND
        await host.say(f"Read all files. {RULE}")
        session = await store.session(_name_of(host))
        for number in range(turns):
            await host.work(number)
            if number == turns // 2:
                await session.pin(RULE, by="user", scope="session")
        assert host.provider.faults == []
        assert watched(host).faults == []
        assert host.turns.tally[forwarding.COMPACTED] >= turns // 10
        assert RULE in json.dumps(host.last_sent)
        assert max(len(json.dumps(one["messages"])) for one in host.provider.requests) < 13_000
        kept = [len(thinking_of(one["messages"])) for one in host.provider.requests[-10:]]
        assert 0 < max(kept) < len(thinking_of(host.history))
        tally = host.turns.tally
        assert not [kind for kind in tally if "fail" in kind or "could not" in kind], tally


def _name_of(host: Host) -> str:
    (conversation,) = host.turns._conversations.values()  # pyright: ignore[reportPrivateUsage]
    return conversation.session.name


@pytest.mark.thorough
async def test_sixty_turns_are_never_refused_and_keep_all_thinking_that_is_good(
    memory_path: Path,
) -> None:
    await run(memory_path, 30)


@pytest.mark.slow
async def test_three_hundred_turns_are_never_refused(memory_path: Path) -> None:
    await run(memory_path, 300)


async def test_an_older_model_gets_its_thinking_as_before(memory_path: Path) -> None:
    async with open_talk(memory_path, agent_controlled=False) as (host, _):
        host.model = "claude-opus-5"
        await host.work_until_compacted()
        answered = [one for one in host.history if one["role"] == "assistant"]
        thought: Json = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
        for one in answered:
            one["content"].insert(0, thought)
        await host.say("Once more.")
        own = [one for one in host.last_sent if one in host.history]
        assert len(thinking_of(own)) == sum(one["role"] == "assistant" for one in own) > 0


async def test_another_process_leaves_the_same_out_though_the_store_is_locked(
    memory_path: Path,
) -> None:
    provider = binding()
    async with open_talk(memory_path, provider, agent_controlled=False) as (host, _):
        host.model = BOUND
        await host.work_until_compacted()
        history, before = host.history, host.last_sent
    with closing(sqlite3.connect(store_path(memory_path))) as lock:
        async with open_talk(memory_path, provider, agent_controlled=False) as (host, _):
            lock.execute("BEGIN EXCLUSIVE")
            host.model, host.history = BOUND, history
            host.turns.patience = 0.05
            await host.say("Go on.")
            assert host.last_sent[: len(before)] == before
            assert provider.faults == []
            assert watched(host).faults == []
            lock.execute("ROLLBACK")


async def test_a_summary_that_the_host_asks_for_goes_without_what_was_made_behind_our_view(
    memory_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_talk(memory_path, binding(), agent_controlled=False) as (host, _):
        host.model = BOUND
        await host.work_until_compacted()
        before = thinking_of(host.last_sent)
        asks = "Your task is to create a detailed summary of the conversation so far."
        summary = [*host.history, {"role": "user", "content": asks}]
        monkeypatch.setattr(host.turns, "may_fit", lambda _: True)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
        answer = await host.post(host.body(summary))
        assert answer.status_code == 200
        assert len(host.last_sent) == len(summary)
        await host.say("Go on.")
        assert host.provider.faults == []
        # It was beside the conversation, which goes on with all that is good there.
        assert thinking_of(host.last_sent)[: len(before)] == before != []


async def test_an_unknown_model_is_sent_as_before_until_it_refuses_once(
    memory_path: Path,
) -> None:
    provider = binding()
    async with open_talk(memory_path, provider, agent_controlled=False) as (host, _):
        host.model = "next-1"
        await host.work_until_compacted()
        assert len(provider.faults) == 1
        assert host.turns.tally[forwarding.WITHOUT_THINKING] == 1
        assert not host.turns.is_aside
        (line,) = [one for one in host.turns.ledger.lines() if "thinking" in one]
        assert line == "  thinking: 1 request refused for it, and sent again without it"
        for number in range(12):
            await host.work(100 + number)
        assert host.turns.tally[forwarding.COMPACTED] > 1
        assert len(provider.faults) == 1
        history = host.history
    async with open_talk(memory_path, provider, agent_controlled=False) as (host, _):
        host.model, host.history = "next-1", history
        await host.work_until_compacted()
        assert len(provider.faults) == 1


async def test_a_provider_that_goes_on_refusing_has_the_gateway_step_aside(
    memory_path: Path,
) -> None:
    async with open_talk(memory_path, agent_controlled=False) as (host, _):
        host.model = BOUND
        await host.work_until_compacted()
        host.history.append({"role": "user", "content": "Go on."})
        error = "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound "
        refusal = {"type": "error", "error": {"message": error + "to a different conversation."}}

        async def refuse(_: Asked, writer: asyncio.StreamWriter) -> None:
            write_whole(writer, json.dumps(refusal).encode(), 400)

        host.provider.hears = refuse
        answer = await host.post(host.body())
        assert answer.status_code == 400
        assert host.turns.is_aside
        assert host.turns.tally[forwarding.STILL_REFUSED] == 1
        host.provider.hears = None
        await host.go_on()
        assert host.last_sent == host.history[:-1]


async def test_aside_the_gateway_leaves_out_what_was_made_behind_its_view(
    memory_path: Path,
) -> None:
    async with open_talk(memory_path, binding(), agent_controlled=False) as (host, _):
        host.model = BOUND
        await host.work_until_compacted()
        host.turns.is_aside = True
        for number in range(3):
            await host.work(200 + number)
            assert len(host.last_sent) == len(host.history) - 1
        assert host.provider.faults == []
        assert watched(host).faults == []
        assert 0 < len(thinking_of(host.last_sent)) < len(thinking_of(host.history)) - 1


async def test_reasoning_of_openai_behind_another_beginning_is_left_out_and_none_is_removed(
    tmp_path: Path,
) -> None:
    reasoning = BoundReasoning()
    provider = StrictProvider("responses", reasoning=reasoning)
    async with open_talk(tmp_path, provider, agent_controlled=False) as (host, _):
        host.model = "gpt-6"
        await host.work_until_compacted()
        await host.work_until_compacted()
        assert (provider.faults, reasoning.faults, reasoning.removed) == ([], [], [])
        newest = [one for one in host.last_sent if one.get("type") == "reasoning"]
        reasoned = [one for one in host.history if one.get("type") == "reasoning"]
        assert 0 < len(newest) < len(reasoned)
        assert newest == reasoned[-len(newest) - 1 : -1]


async def test_a_model_that_nobody_knows_is_known_by_what_its_provider_leaves_out(
    tmp_path: Path,
) -> None:
    reasoning = BoundReasoning()
    provider = StrictProvider("responses", reasoning=reasoning)
    environ = {"HOME": str(tmp_path / "home")}
    async with open_talk(tmp_path, provider, agent_controlled=False, environ=environ) as (host, _):
        host.model = "o9-mini"
        await host.work_until_compacted()
        removed = len(reasoning.removed)
        assert removed > 0
        await host.work_until_compacted()
        assert (len(reasoning.removed), reasoning.faults, provider.faults) == (removed, [], [])
        blocks = "block" if removed == 1 else "blocks"
        line = f"the provider left out {removed} {blocks} (prefix_mismatch: {removed})"
        assert f"  thinking: {line}" in host.turns.ledger.lines()
        await host.turns.leave_all()
    assert [one.what for one in read_trouble(environ)] == [line]
