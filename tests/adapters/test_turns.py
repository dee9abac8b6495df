"""Roles that take turns: a strict template refuses two messages of one role in a row."""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from mcp_compaction import open_store
from mcp_compaction.adapters.loop import LoopKit
from tests.adapters.kits import LONG_WAYS, RULE, history, kit_of, text_of, user
from tests.adapters.scripted import BoundModel, ScriptedModel, Step, think, use
from tests.checkers import Json

pytestmark = pytest.mark.anyio

TURNS = 40


def script() -> list[Step]:
    """For each turn a call and an answer; the agent compresses now and then."""
    steps: list[Step] = []
    for turn in range(TURNS):
        calls = [use(f"t{turn}", "Read", path=f"src/{turn}.py")]
        if turn % 12 == 11:
            calls.append(use(f"c{turn}", "compress_context", reason="a part is done", force=True))
        steps.append([think(f"Look at {turn}."), *calls])
        steps.append([{"type": "text", "text": f"Module {turn} stays: we use port 80{turn:02}."}])
    return steps


async def go_on(kit: LoopKit, model: ScriptedModel, messages: list[Json]) -> list[Json]:
    """One turn of a caller whose list is what it was given for the one before."""
    while True:
        messages = list(await kit.fit(messages))
        response = await kit.send(model, messages)
        messages += kit.answer_of(copy.deepcopy(response))
        calls = kit.calls_of(response)
        if not calls:
            return messages
        results = [
            await kit.call(c) if kit.owns(c) else kit.result_of(c, f"row of {c['id']}\n" * 40)
            for c in calls
        ]
        messages = await kit.apply([*messages, *kit.messages_of(results)])


@pytest.mark.parametrize("way", LONG_WAYS)
async def test_40_turns_of_a_caller_that_goes_on_with_what_was_sent_never_break_turns(
    memory_path: Path, way: str
) -> None:
    model = BoundModel(script())
    messages: list[Json] = []
    async with kit_of(way, memory_path) as kit:
        for turn in range(TURNS):
            messages.append(user(f"{RULE if not turn else ''} Look at src/{turn}.py."))
            messages = await go_on(kit, model, messages)
            if turn == 3:
                pin = use("p1", "pin_constraint", text=RULE)
                assert "p1" in str(await kit.call(pin))
        found = await kit.call(use("r", "recall_archived", refs="m1,m2,m3"))
        stats = await kit.call(use("s", "context_stats", detail="full"))
        assert kit.failures == 0
    assert len(model.requests) == 2 * TURNS
    assert model.refused == 0
    last = text_of(model.requests[-1])
    assert "[digest d" in last
    assert RULE in last
    # Nothing was recorded twice, and no record of ours as a message.
    assert "[digest" not in str(found)
    assert "[pinned" not in str(found)
    assert _messages_in(str(stats["content"])) == 4 * TURNS, stats["content"]
    assert _count_changes(model.texts) <= _count_views(model.texts) + 2


async def test_a_request_made_of_the_log_takes_turns_and_is_known_when_it_comes_back(
    memory_path: Path,
) -> None:
    async with open_store(
        home=memory_path, project="/p", window_tokens=8_000, counter="estimate"
    ) as store:
        session = await store.session("loop")
        await session.pin("Deploy on Mondays only.", by="user")
        await session.record({"system": "Be brief.", "messages": history(30)})
        await session.compress("all read", force=True)
        body = await session.request("anthropic")
        roles = [one["role"] for one in body["messages"]]
        assert len(roles) < 50
        assert all(one != other for one, other in pairwise(roles))
        body["messages"] += [{"role": "assistant", "content": "Done."}, user("And now?")]
        recorded = await session.record(body)
        assert recorded.new == 2
        assert recorded.diverged is None
        again = await session.request("anthropic")
        assert again["messages"] == body["messages"]
        fitted = await session.fit(body)
        assert fitted.recorded.new == 0
        assert fitted.messages == body["messages"]


def _messages_in(stats: str) -> int:
    return max(int(ref) for ref in re.findall(r"\bm(\d+)\b", stats))


def _count_changes(texts: Sequence[list[str]]) -> int:
    """How often the bytes of what was sent before were other ones in the next request."""
    return sum(now[: len(before)] != before for before, now in pairwise(texts))


def _count_views(texts: Sequence[list[str]]) -> int:
    return sum(_digests(a) != _digests(b) for a, b in pairwise(texts))


def _digests(texts: list[str]) -> list[str]:
    return re.findall(r"\[digest d\d+[^\]]*\]", "".join(texts))
