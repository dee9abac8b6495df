"""Hooks beside our module in Claude Code: they stand down, but for what it leaves to the host."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from mcp_compaction import compactor, open_store
from mcp_compaction.api.handles import OpenStore
from mcp_compaction.core.log.pinned import PINNED_LABEL
from mcp_compaction.hosts.chat import HostChats
from mcp_compaction.hosts.handling import EventHandler, HostEvent
from tests.hosts.given_hosts import claude_line, write_chat

pytestmark = pytest.mark.anyio

RULE = "Never push to main without a review."
CHAT = "5a1c"


class Hooks:
    """The hooks of a chat that our module serves."""

    def __init__(self, handler: EventHandler, store: OpenStore, transcript: Path) -> None:
        self.handler, self.store, self.transcript = handler, store, transcript

    async def tell(self, event: str, *, part: str = "", source: str = "") -> str:
        """What the host reads of the answer to an event."""
        told = HostEvent(
            "claude-code",
            event,
            CHAT,
            str(self.transcript),
            "records" if part == "records" else "pins" if part else "",
            source,
        )
        answer = await self.handler.handle(self.store.workspace, told)
        await self.handler.confirm(self.store.workspace, answer)
        return answer.text

    async def begin_window(self) -> list[str]:
        """What is given after a compaction, by both hooks for it."""
        parts = ("pins", "records")
        return [await self.tell("SessionStart", part=one, source="compact") for one in parts]

    async def count_messages(self) -> int:
        """The messages that are recorded of the chat."""
        every = await compactor.list_sessions(self.store.workspace, self.store.project)
        return sum(info.messages for info in every if info.host_session == CHAT)


@asynccontextmanager
async def hooks_beside_mod(folder: Path, *, has_mod: bool = True) -> AsyncGenerator[Hooks]:
    environ = {"HOME": str(folder)}
    lines = [
        claude_line(n, f"Step {n}: look at src/part_{n}.py.", cwd=str(folder)) for n in range(9)
    ]
    transcript = write_chat(environ, lines, CHAT)
    async with open_store(home=folder / "store", project=folder) as store:
        await (await store.session("other")).pin(RULE, by="user", scope="project")
        handler = EventHandler(HostChats(store.project, environ, has_mod=lambda _: has_mod))
        yield Hooks(handler, store, transcript)
        await handler.chats.close()


async def test_where_the_module_runs_no_hook_shows_pins_or_records_what_was_said(
    tmp_path: Path,
) -> None:
    async with hooks_beside_mod(tmp_path) as hooks:
        events = ("UserPromptSubmit", "PostToolBatch", "Stop", "PostCompact")
        assert [await hooks.tell(event) for event in events] == [""] * 4
        assert await hooks.begin_window() == ["", ""]
        assert await hooks.count_messages() == 0
    async with hooks_beside_mod(tmp_path / "without", has_mod=False) as hooks:
        assert PINNED_LABEL in await hooks.tell("UserPromptSubmit")
        assert await hooks.count_messages() == 9


async def test_what_the_module_leaves_to_the_host_hooks_put_back_until_it_compacts_again(
    tmp_path: Path,
) -> None:
    async with hooks_beside_mod(tmp_path) as hooks:
        assert "Keep the pins" in await hooks.tell("PreCompact")
        await hooks.tell("SubagentStop")
        pins, records = await hooks.begin_window()
        assert json.dumps(RULE)[1:-1] in pins
        assert "[records: " in records
        assert (await hooks.tell("PostCompact")).startswith("mcp-compaction: 1 pin")
        assert await hooks.begin_window() == ["", ""]  # the next one is the module's
        assert await hooks.tell("UserPromptSubmit") == ""


async def test_a_compaction_that_the_host_gave_up_does_not_make_the_next_one_its_own(
    tmp_path: Path,
) -> None:
    async with hooks_beside_mod(tmp_path) as hooks:
        await hooks.tell("PreCompact")
        await hooks.tell("UserPromptSubmit")
        assert await hooks.begin_window() == ["", ""]
