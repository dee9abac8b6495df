"""Requests that pass through the gateway become smaller, stay valid, and keep their prefix."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.checkers import Json
from tests.gateway.talking import PATHS, WINDOW, Host, StrictProvider, open_talk, size_of

pytestmark = pytest.mark.anyio

RULE = 'Never push to "main" without a review — not even once.'


def prefix_of(messages: list[Json], other: list[Json]) -> int:
    """How many messages two requests begin with in common."""
    pairs = enumerate(zip(messages, other, strict=False))
    return next((n for n, (one, two) in pairs if one != two), min(len(messages), len(other)))


@pytest.mark.thorough
@pytest.mark.parametrize("shape", PATHS)
async def test_a_long_history_is_sent_small_and_valid_with_a_steady_prefix(
    tmp_path: Path, shape: str
) -> None:
    async with open_talk(tmp_path, StrictProvider(shape), agent_controlled=False) as (host, _):
        for number in range(18):
            await host.work(number)
        assert host.provider.faults == []
        assert host.turns.tally["compactions"] >= 2
        sent = [one.get("messages") or one["input"] for one in host.provider.requests]
        assert max(map(size_of, sent)) < 4 * WINDOW < size_of(host.history)
        assert not [kind for kind in host.turns.tally if "fail" in kind or "could not" in kind]
        broken = [one for one, two in pairwise(sent) if prefix_of(one, two) < len(one)]
        assert 1 <= len(broken) <= host.turns.tally["compactions"]
        if shape == "anthropic":
            roles = [[message["role"] for message in one] for one in sent]
            assert not [one for one in roles if any(a == b for a, b in pairwise(one))]


async def test_pins_stand_in_every_request_from_the_first_on(tmp_path: Path) -> None:
    async with open_talk(tmp_path, agent_controlled=False) as (host, store):
        await (await store.session("other")).pin(RULE, by="user", scope="project")
        for number in range(14):
            await host.work(number)
        assert host.turns.tally["compactions"] >= 1
        for body in host.provider.requests:
            assert (
                json.dumps(body, ensure_ascii=False).count(
                    json.dumps(RULE, ensure_ascii=False)[1:-1]
                )
                == 1
            )
        assert host.provider.faults == []


async def test_what_the_agent_compresses_is_smaller_at_the_next_request(tmp_path: Path) -> None:
    async with open_talk(tmp_path) as (host, store):
        for number in range(8):
            await host.work(number)
        before = size_of(host.last_sent)
        key = await store.workspace.store.find_host_session(store.project, "chat-1", "claude-code")
        assert key is not None
        await (await store.session(key.name)).compress("all read", force=True, target_percent=30)
        await host.say("Go on.")
        assert size_of(host.last_sent) < before * 0.7
        assert host.provider.faults == []


async def test_everything_beside_the_messages_is_as_it_came(tmp_path: Path) -> None:
    async with open_talk(tmp_path, agent_controlled=False) as (host, _):
        for number in range(12):
            await host.work(number)
        host.history.append({"role": "user", "content": "Now."})
        system = [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]
        more: dict[str, Any] = {
            "system": system,
            "metadata": {"user_id": "{}"},
            "thinking": {"type": "adaptive"},
        }
        await host.post(host.body(**more))
        sent = host.provider.requests[-1]
        assert sent["messages"] != host.history
        assert {k: v for k, v in sent.items() if k != "messages"} == {
            k: v for k, v in host.body(**more).items() if k != "messages"
        }
        assert list(sent) == list(host.body(**more))


async def test_the_hosts_cache_mark_stays_on_its_newest_message(tmp_path: Path) -> None:
    async with open_talk(tmp_path, agent_controlled=False) as (host, _):
        for number in range(16):
            host.history.append({"role": "user", "content": f"Number {number}. " + "word " * 300})
            text = {"type": "text", "text": host.history[-1]["content"]}
            marked = {"role": "user", "content": [{**text, "cache_control": {"type": "ephemeral"}}]}
            response = await host.post(host.body([*host.history[:-1], marked]))
            host.history.append({"role": "assistant", "content": f"answer {number + 1}"})
            assert response.status_code == 200
            assert (
                host.last_sent[-1]["role"] == "user"
            )  # behind records it is one message with them
            assert host.last_sent[-1]["content"][-1] == marked["content"][-1]
            assert json.dumps(host.last_sent).count("cache_control") == 1
        assert host.turns.tally["compactions"] >= 1


async def _compact_by_host(host: Host) -> None:
    """Do as a host does that compacts by itself: ask for a summary, then begin with it."""
    prompt = "Your task is to create a detailed summary of the conversation so far."
    asking = [*host.history, {"role": "user", "content": prompt}]
    await host.post(host.body(asking))
    host.history = [
        {
            "role": "user",
            "content": "This session is being continued from a previous conversation that ran out "
            "of context. Summary: we read files.",
        },
        *host.history[-4:],
    ]


async def test_a_pin_that_rode_in_its_call_stands_in_the_block_after_the_host_compacts(
    tmp_path: Path,
) -> None:
    async with open_talk(tmp_path) as (host, store):
        await host.work(0)
        info = await store.workspace.store.find_host_session(store.project, "chat-1", "claude-code")
        assert info is not None
        await (await store.session(info.name)).pin(RULE, by="user")
        host.history[-1]["content"] = [{"type": "text", "text": f"pinned: {RULE}"}]
        await host.say("Well?")
        await _compact_by_host(host)
        host.history = [host.history[0], *host.history[-1:]]
        sent: list[list[Json]] = []
        for text in ("One.", "Two.", "Three."):
            await host.say(text)
            assert json.dumps(host.last_sent).count("p1 constraint, by user") == 1
            sent.append(host.last_sent)
        assert sent[1][: len(sent[0])] == sent[0]
        assert sent[2][: len(sent[1])] == sent[1]
