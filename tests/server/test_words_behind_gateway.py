"""A server behind a gateway: what requests told is the user's once the host has written it down."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from mcp_compaction import compactor
from mcp_compaction.compactor.results import FitOptions
from mcp_compaction.home import default_home
from mcp_compaction.hosts.serving import RunningGateway, note_gateway
from mcp_compaction.model import Traits
from mcp_compaction.ports import SessionKey
from mcp_compaction.settings import load_settings
from mcp_compaction.wiring import open_workspace
from tests.hosts.given_hosts import SHOP, claude_line
from tests.server.test_host_event import CHAT, claude_code

pytestmark = pytest.mark.anyio

RULE = "Never push to main without a review."


async def send_through_gateway(home: Path, port: int, text: str) -> None:
    """Record a request of the chat as a gateway does, which runs from now on."""
    note_gateway(
        home, RunningGateway(os.getpid(), port, SHOP, "", "now", {CHAT: "claude-code"}, {})
    )
    environ = {"MCP_COMPACTION_HOME": str(home), "MCP_COMPACTION_COUNTER": "estimate"}
    work = await open_workspace(load_settings(environ))
    try:
        key = SessionKey(project=SHOP, host="claude-code", host_session=CHAT)
        info, _ = await compactor.open_session(work, key, Traits())
        sent: list[Any] = [{"role": "user", "content": text}]
        await compactor.fit(work, info, sent, FitOptions(is_hearsay=True))
    finally:
        await work.store.close()


async def test_an_agent_pins_as_the_users_what_the_transcript_has(
    tmp_path: Path, taken_port: int
) -> None:
    async with claude_code(tmp_path) as chat:
        await send_through_gateway(default_home(chat.environ), taken_port, RULE)
        refused = await chat.talk.fail("pin_constraint", text=RULE, scope="project")
        assert "m1 holds these words only as the agent told it" in refused
        chat.grow(claude_line(1, RULE))
        pinned = await chat.talk.say("pin_constraint", text=RULE, scope="project")
        assert pinned.startswith("pinned as p1 (constraint, project, by user, said in m1)")
