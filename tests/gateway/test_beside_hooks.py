"""Hooks and a server of ours beside a gateway: a message is recorded once, a pin shown once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mcp_compaction import open_store
from mcp_compaction.hosts.gateways import (
    PROCESS,
    RunningGateway,
    forget_gateway,
    gateway_around,
    gateway_of_chat,
    is_through_gateway,
    note_gateway,
    running_gateways,
)
from mcp_compaction.hosts.handling import EventHandler, HostEvent

pytestmark = pytest.mark.anyio

RULE = "Never push to main without a review."


def _gateway(process: int, **chats: str) -> RunningGateway:
    return RunningGateway(process, 8765, "/shop", "claude-code", "2026-11-16", chats, {})


@pytest.mark.parametrize("has_gateway", [True, False])
async def test_hooks_stand_down_while_a_gateway_shows_the_pins(
    tmp_path: Path, has_gateway: bool
) -> None:
    async with open_store(home=tmp_path, project=tmp_path) as store:
        await (await store.session("other")).pin(RULE, by="user", scope="project")
        handler = EventHandler(store.project, {}, has_gateway=lambda _: has_gateway)
        event = HostEvent(
            host="claude-code", name="SessionStart", session="chat-1", transcript="", source="clear"
        )
        answer = await handler.handle(store.compactor, event)
        assert (RULE in answer.text) is not has_gateway


def test_a_gateway_is_known_by_its_chats_and_by_its_process(tmp_path: Path) -> None:
    note_gateway(tmp_path, _gateway(os.getpid(), one="codex", two="claude-code"))
    environ = {PROCESS: str(os.getpid())}
    around = gateway_around(tmp_path, environ)
    assert around is not None
    assert around.newest_chat == ("claude-code", "two")
    assert gateway_of_chat(tmp_path, "one") == around
    assert gateway_of_chat(tmp_path, "three") is None
    assert is_through_gateway(tmp_path, environ, "three")
    assert not is_through_gateway(tmp_path, {}, "three")
    forget_gateway(tmp_path, os.getpid())
    assert running_gateways(tmp_path) == ()


def test_a_gateway_that_was_killed_is_not_taken_for_one_that_runs(tmp_path: Path) -> None:
    process = os.posix_spawn("/bin/true", ["true"], {})
    os.waitpid(process, 0)
    note_gateway(tmp_path, _gateway(process, one="codex"))
    (tmp_path / "gateway/broken.json").write_text("{", encoding="utf-8")
    assert running_gateways(tmp_path) == ()
