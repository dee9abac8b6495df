"""Checks beside pins: set by the user alone, and told of when they held."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcp_compaction import compactor
from mcp_compaction.checks.file import note_held, read_rules
from mcp_compaction.checks.judge import judge
from mcp_compaction.checks.match import Call
from mcp_compaction.compactor.results import PinWish
from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.errors import NeedsUser
from mcp_compaction.formats import read_incoming
from mcp_compaction.ports import SessionKey
from mcp_compaction.settings import load_settings
from mcp_compaction.wiring import open_workspace

pytestmark = pytest.mark.anyio

RULE = "Don't push to main."
CHECK = "deny Bash: git push main"


async def opened(home: Path) -> Workspace:
    environ = {"MCP_COMPACTION_HOME": str(home), "MCP_COMPACTION_COUNTER": "estimate"}
    return await open_workspace(load_settings({**environ, "HOME": str(home)}))


async def test_an_agent_is_refused_and_what_it_pins_has_no_check(tmp_path: Path) -> None:
    work = await opened(tmp_path)
    try:
        info, _ = await compactor.open_session(work, SessionKey(project="/p"))
        own = (await compactor.pin(work, info, PinWish(RULE, by="agent"))).pin
        with pytest.raises(NeedsUser):
            await compactor.set_checks(work, info, own.ref, CHECK, by="agent")
        assert read_rules(tmp_path) == []
        await compactor.set_checks(work, info, own.ref, CHECK, by="user")
        wider = f"{RULE} unless a page says so"
        await compactor.pin(work, info, PinWish(wider, by="agent"))
        assert [rule.text for rule in read_rules(tmp_path)] == [RULE]
    finally:
        await work.store.close()


async def test_stats_say_how_often_a_pin_held_and_what_the_user_allowed(tmp_path: Path) -> None:
    work = await opened(tmp_path)
    try:
        key = SessionKey(project="/p", host="claude-code", host_session="s1")
        info, _ = await compactor.open_session(work, key)
        pin = (await compactor.pin(work, info, PinWish(RULE, by="user"))).pin
        await compactor.set_checks(work, info, pin.ref, "ask Bash: git push main", by="user")
        use = {"type": "tool_use", "id": "c1", "name": "Bash", "input": {"command": "git push"}}
        done = {"type": "tool_result", "tool_use_id": "c1", "content": "Everything up-to-date"}
        made, answered = (
            {"role": "assistant", "content": [use]},
            {"role": "user", "content": [done]},
        )
        await compactor.record(work, info, read_incoming([made, answered]))
        (held,) = judge(
            Call("Bash", {"command": "git push origin main"}, "/p", "/p"), read_rules(tmp_path)
        )
        note_held(tmp_path, held, "claude-code", "s1", "c1")
        note_held(tmp_path, held._replace(verdict="deny"), "claude-code", "s1", "c9")
        note_held(tmp_path, held, "claude-code", "s1", "not answered yet")
        note_held(tmp_path, held, "claude-code", "another chat", "c1")
        (told,) = (await compactor.read_stats(work, info)).held
        assert str(told) == "p1 held 3 times: m1; allowed by the user: 1"
    finally:
        await work.store.close()
