"""A server beside the module, the hooks and the host's files: one acts, and what fails is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from mcp_compaction.core.log.pinned import PINNED_LABEL
from mcp_compaction.home import default_home
from mcp_compaction.hosts.events import TOOL
from mcp_compaction.hosts.hook_notes import read_run, read_trouble
from mcp_compaction.server.app import build_server
from mcp_compaction.settings import settings_without_effect
from tests.server.claude_host import SESSION, ClaudeHost, claude_talk
from tests.server.talking import Talk
from tests.server.test_claude_mod import RULE, WIDE, work
from tests.view_service.test_listening import ask

pytestmark = pytest.mark.anyio


RUN, WITHOUT = "claude-code-mod", "claude-code-without-mod"


async def tell(talk: Talk, host: ClaudeHost, event: str, **more: str) -> str:
    """What the host reads of the answer to an event of a hook."""
    given = {"session_id": SESSION, "transcript_path": str(host.transcript), "cwd": "/p", **more}
    return await talk.say(TOOL, event=event, **given)


async def test_hooks_of_a_chat_that_the_module_serves_show_nothing_but_what_it_did(
    tmp_path: Path,
) -> None:
    async with claude_talk(tmp_path, WIDE) as (talk, host, place):
        host.type(RULE)
        host.answer("Understood.")
        await ask(place, "/claude/append", session=SESSION)
        await talk.say("pin_constraint", text=RULE)
        work(host, 0, 12)
        assert PINNED_LABEL not in await tell(talk, host, "UserPromptSubmit")
        assert await tell(talk, host, "PostCompact") == ""
        await host.compact(place)
        for part in ("pins", "records"):
            told = await tell(talk, host, "SessionStart", source="compact", part=part)
            assert told == "{}"
        assert (await tell(talk, host, "PostCompact")).startswith("mcp-compaction: c1 ")
        assert "1 pin kept" in await tell(talk, host, "PostCompact")


async def test_a_turn_of_which_the_module_tells_nothing_is_noted_for_doctor(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path / "home")}
    async with claude_talk(tmp_path) as (talk, host, place):
        host.type(RULE)
        await tell(talk, host, "UserPromptSubmit")
        assert read_run(environ, WITHOUT) is None  # the module may be about to tell of it
        await tell(talk, host, "Stop")
        assert read_run(environ, WITHOUT) is not None
    async with claude_talk(tmp_path / "with") as (talk, host, place):
        environ = {"HOME": str(tmp_path / "with/home")}
        host.type(RULE)
        await ask(place, "/claude/append", session=SESSION)
        await tell(talk, host, "Stop")
        assert read_run(environ, WITHOUT) is None


async def test_a_run_of_the_module_and_what_it_left_to_the_host_are_noted_for_doctor(
    tmp_path: Path,
) -> None:
    environ = {"HOME": str(tmp_path / "home")}
    async with claude_talk(tmp_path) as (_, _, place):
        assert read_run(environ, RUN) is None
        await ask(place, "/claude/status", session=SESSION)
        assert read_trouble(environ) == []
        for _ in range(2):
            await ask(place, "/claude/status", session=SESSION, falls=1)
        assert read_run(environ, RUN) is not None
    (noted,) = read_trouble(environ)
    assert (noted.host, noted.what) == (
        "claude-code",
        "left to the host: no view in time",
    )


async def test_what_is_wrong_with_the_settings_is_shown_by_the_module(tmp_path: Path) -> None:
    environ = {
        "HOME": str(tmp_path),
        "MCP_COMPACTION_VIEWS": str(tmp_path / ".views"),
        "CLAUDE_CODE_SESSION_ID": SESSION,
    }
    fault = "MCP_COMPACTION_NOBODY is no setting: remove it."
    server = build_server(settings_without_effect(environ), "/p", environ, fault=fault)
    place = tmp_path / f".views/{SESSION}.json"
    async with Client(server):
        told: Any = (await ask(place, "/claude/status", session=SESSION))[1]
        assert told["trouble"] == "MCP_COMPACTION_NOBODY is no setting: remove it"
        told = (await ask(place, "/claude/window", session=SESSION))[1]
        assert told["text"].startswith(fault)
        compacted = await ask(place, "/claude/compact", session=SESSION, handles=["u1"], told={})
        assert compacted[1] == {"why": fault.removesuffix(".")}
    assert not default_home(environ).exists()


async def test_a_server_starts_where_it_cannot_tell_the_module_its_address(tmp_path: Path) -> None:
    views = tmp_path / "plugin/.views"
    (views / f"{SESSION}.json").mkdir(parents=True, mode=0o700)  # where the address belongs
    views.chmod(0o700)
    async with claude_talk(tmp_path) as (talk, _, _):
        assert "pinned as p1" in await talk.say("pin_constraint", text="Only on Fridays.")
