"""Requests that bring only what is new, since their provider keeps the rest: no whole histories."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcp_compaction import compactor
from mcp_compaction.api import OpenStore
from mcp_compaction.gateway import forwarding
from tests.checkers import Json
from tests.gateway.talking import PATHS, Host, StrictProvider, open_talk, size_of
from tests.gateway.upstream import Asked

pytestmark = pytest.mark.anyio

HELLO = {"role": "user", "content": "Hello."}


async def log_of(store: OpenStore) -> list[Json]:
    """All that is recorded of the chat."""
    info = await store.workspace.store.find_host_session(store.project, "chat-1", "claude-code")
    assert info is not None
    found = await compactor.originals(store.workspace, info, f"m1..m{info.messages}")
    return [json.loads(one.message.raw) for one in found]


async def work(host: Host, turns: int) -> None:
    """Have a host work."""
    for number in range(turns):
        await host.work(number, size=200)


async def test_who_sends_only_what_is_new_is_asked_once_for_all_and_its_window_shrinks(
    tmp_path: Path,
) -> None:
    async with open_talk(tmp_path, agent_controlled=False) as (host, store):
        host.is_threaded = True
        await work(host, 1)
        assert not host.is_threaded
        assert host.turns.tally[forwarding.ASKED_FOR_ALL] == 1
        await host.work_until_compacted()
        assert host.provider.faults == []
        assert size_of(host.last_sent) < 0.8 * size_of(host.history)
        assert [one["role"] for one in await log_of(store)] == [m["role"] for m in host.history]


async def test_one_that_goes_on_so_passes_and_nothing_is_taken_for_taken_back(
    tmp_path: Path,
) -> None:
    async with open_talk(tmp_path) as (host, store):
        await work(host, 3)
        (kept,) = host.turns._kept.values()  # pyright: ignore[reportPrivateUsage]
        assert kept.note_part()  # it was asked
        host.is_threaded, host.thread = True, None
        await host.say("Create.")
        recorded = await log_of(store)
        for text in ("Go on.", "And on.", "And on and on."):
            await host.say(text)
        assert host.is_threaded
        assert host.provider.threads.continued == 3
        assert host.turns.tally[forwarding.PART] == 3
        assert await log_of(store) == recorded
        assert kept.has_gap  # the host's transcript tells more
        host.is_threaded = False
        await host.say("All of it.")
        assert host.last_sent == host.history[:-1]
        assert [one["role"] for one in await log_of(store)] == [m["role"] for m in host.history]


@pytest.mark.parametrize(
    ("shape", "key", "value"),
    [
        ("anthropic", "thread", {"type": "continue", "previous_message_id": "msg_1"}),
        ("responses", "previous_response_id", "resp_1"),
        ("responses", "conversation", "conv_1"),
    ],
)
async def test_with_shadow_each_passes_byte_for_byte(
    tmp_path: Path, shape: str, key: str, value: Any
) -> None:
    heard: list[bytes] = []
    provider = StrictProvider(shape)

    async def hear(asked: Asked, writer: Any) -> None:
        heard.append(asked.body)
        await provider.answer(asked, writer)

    provider.hears = hear
    async with open_talk(tmp_path, provider, is_shadow=True) as (host, _):
        body = json.dumps(host.body([HELLO], **{key: value}), indent=1).encode()
        for _ in range(2):
            await host.client.post(PATHS[shape], content=body, headers=host.headers)
            await host.turns.settle()
        assert heard == [body, body]
        assert host.turns.tally == {forwarding.PART: 2}
