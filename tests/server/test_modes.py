"""Words follow what is plugged in: an own loop, a hook that puts pins back, or nothing."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError
from mcp.types import Implementation

from mcp_compaction import compactor
from mcp_compaction.compactor.results import PinWish
from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.core.log.pinned import PINNED_LABEL
from mcp_compaction.formats import read_incoming
from mcp_compaction.ports import Scope, SessionKey
from mcp_compaction.server.app import INSTRUCTIONS
from mcp_compaction.settings import load_settings
from mcp_compaction.wiring import open_workspace
from tests.server.talking import ERAS, SMALL, Era, Talk, talk
from tests.strategies import coding_session

pytestmark = pytest.mark.anyio

both_eras = pytest.mark.parametrize("era", ERAS)
# As these hosts name themselves when they connect.
CLOSED = ["claude-code", "codex-mcp-client", "opencode", "gemini-cli-mcp-client", "claude-ai"]
closed_hosts = pytest.mark.parametrize("client", CLOSED)
RULE = "Never push to main."
LONG = coding_session(40, 300)
CHAT = {"CLAUDE_CODE_SESSION_ID": "0f8a"}
FALSE = re.compile(r"surviv|every compaction|through (?:a|every) compaction", re.I)


def named(client: str) -> dict[str, Any]:
    """The client of a host."""
    return {"client_info": Implementation(name=client, version="1")}


@asynccontextmanager
async def workspace_of(folder: Path) -> AsyncGenerator[Workspace]:
    """The workspace of a program that works on the same store."""
    settings = load_settings({**SMALL, "MCP_COMPACTION_HOME": str(folder / "store")})
    work = await open_workspace(settings)
    try:
        yield work
    finally:
        await work.store.close()


@pytest.mark.thorough
@both_eras
@closed_hosts
async def test_in_a_closed_host_no_answer_says_that_pins_survive_or_that_the_window_is_the_agents(
    tmp_path: Path, era: Era, client: str
) -> None:
    async with talk(tmp_path, era, **named(client)) as chat:
        pinned = await chat.say("pin_constraint", text=RULE, session="a")
        recorded = await chat.say("record_messages", messages=LONG, session="a")
        stats = await chat.say("context_stats", session="a")
        receipt = await chat.say("compress_context", reason="x", target_percent=30, session="a")
        after = await chat.say("context_stats", session="a")
        recalled = await chat.say("recall_archived", session="a")
        restored = await chat.say("restore_context", ref="c1", session="a", force=True)
        prompt = await chat.prompt("pin", text="Be brief.")
        tools = [tool.description or "" for tool in (await chat.client.list_tools()).tools]
    for text in (pinned, recorded, stats, receipt, after, recalled, restored):
        assert not FALSE.search(text), text
        assert "yours to replace" not in text
        assert "your next step" not in text
        assert not re.search(r"fill: [\d.]+", text)
    for text in (prompt, *tools, INSTRUCTIONS):
        assert not FALSE.search(text), text
    assert "nothing is known to put it back after the host's own compaction" in pinned
    assert "call context_stats or recall_archived" in pinned
    assert "fill: unknown, the window is the host's; recorded are 81 messages" in stats
    assert "window: the host's, and unchanged" in receipt
    assert "continue a" in receipt


@both_eras
async def test_where_a_hook_puts_pins_back_the_words_say_so(tmp_path: Path, era: Era) -> None:
    host = named("claude-code")
    async with talk(tmp_path, era, environ=CHAT, **host) as chat:
        assert "nothing is known" in await chat.say("pin_constraint", text=RULE)
    async with workspace_of(tmp_path) as work:
        info = await work.store.find_host_session("/p", "0f8a")
        assert info is not None
        await compactor.put_pins_back(work, info)
    async with talk(tmp_path, era, environ=CHAT, **host) as chat:
        pinned = await chat.say("pin_constraint", text="Ask before a deploy.")
        assert re.search(
            r"a hook last put the pins back after the host's own .* \d\d:\d\d;", pinned
        )
        assert "a hook last put the pins back " in await chat.say("context_stats")
        assert (await chat.say("recall_archived", query="deploy")).startswith(PINNED_LABEL)
        by_prompt = await chat.prompt("pin", text="Be brief.")
        assert re.search(r"a hook last put the pins back after .* \d\d:\d\d;", by_prompt)


@both_eras
async def test_stats_and_recall_show_the_pins_words_first(tmp_path: Path, era: Era) -> None:
    async with talk(tmp_path, era, environ=CHAT, **named("claude-code")) as chat:
        await chat.say("compress_context", reason="x", digest="FACTS\n- the port is 8437")
        await chat.say("pin_constraint", text=RULE)
        block = f"{PINNED_LABEL}\np1 constraint, by agent: {RULE}"
        head, *_ = (await chat.say("context_stats")).split("\nfill")
        assert head.split("\n", 1)[1] == block
        for answer in (
            await chat.say("recall_archived", query="port"),
            await chat.say("recall_archived", refs="d1"),
        ):
            assert answer.startswith(f"{block}\n")
        assert block in (await chat.say("recall_archived")).split("<archived")[0]


@both_eras
async def test_from_fifteen_points_below_the_trigger_stats_advise_to_compress(
    tmp_path: Path, era: Era
) -> None:
    async with talk(tmp_path, era) as chat:
        seen: dict[int, bool] = {}
        for start in range(0, len(LONG), 2):
            recorded = await chat.say(
                "record_messages", messages=LONG[start : start + 2], session="a"
            )
            if "a compaction is under way" in recorded:
                break
            stats = await chat.say("context_stats", session="a")
            fill = re.search(r"\((\d+) %", stats.split("fill: ")[-1])
            assert fill is not None
            advice = f"{fill[1]} % full, at 95 % it is compressed without being asked: compress at"
            seen[int(fill[1])] = f"{advice} the next boundary" in stats
        assert any(not is_advised for is_advised in seen.values())
        assert any(seen.values())
        assert all(is_advised == (percent >= 80) for percent, is_advised in seen.items())


# Sessions


@both_eras
async def test_the_only_session_of_a_process_is_meant_and_named_once(
    tmp_path: Path, era: Era
) -> None:
    async with talk(tmp_path, era, **named("opencode")) as chat:
        first = await chat.say("pin_constraint", text=RULE)
        assert 'new session "p-1": pass session="p-1" from now on' in first
        named_once = 'session "p-1": the only one this server has used'
        assert named_once in await chat.say("pin_constraint", text="Be brief.")
        for answer in (
            await chat.say("context_stats"),
            await chat.say("recall_archived"),
            await chat.say("recall_archived", query="push"),
            await chat.say("compress_context", reason="x", digest="OPEN\n- a task"),
            await chat.say("record_messages", messages=LONG[:2]),
            await chat.say("unpin_constraint", ref="p2"),
        ):
            assert named_once not in answer
            assert "which session?" not in answer
        await chat.say("pin_constraint", text=RULE, session="second")
        for tool in ("context_stats", "recall_archived"):
            result = await chat.call(tool)
            assert "which session?" in str(result.content)


@both_eras
async def test_across_sessions_none_has_to_be_named_and_projects_are(
    tmp_path: Path, era: Era
) -> None:
    async with workspace_of(tmp_path) as work:
        info, _ = await compactor.open_session(work, SessionKey(project="/q", name="taxes"))
        await compactor.record(
            work, info, read_incoming([{"role": "user", "content": "The zebra is 41."}])
        )
    async with talk(tmp_path, era) as chat:
        found = await chat.say("recall_archived", query="zebra", scope="all")
        assert "[project /q session taxes m1 user" in found
        nothing = await chat.say("recall_archived", query="zebra", scope="project")
        assert "among 0 messages of project /p" in nothing
        await chat.say("record_messages", messages=LONG[:1], session="mine")
        found = await chat.say("recall_archived", query="zebra", scope="all", session="mine")
        assert "[project /q session taxes m1 user" in found


@both_eras
async def test_looking_into_another_project_writes_nothing(tmp_path: Path, era: Era) -> None:
    async def dump() -> str:
        async with workspace_of(tmp_path) as work:
            stats = await compactor.read_stats(
                work, await compactor.find_session(work, "/q", "taxes")
            )
            return json.dumps([stats.regret.model_dump(), list(stats.events)])

    async with workspace_of(tmp_path) as work:
        info, _ = await compactor.open_session(work, SessionKey(project="/q", name="taxes"))
        await compactor.record(work, info, read_incoming(LONG))
        await compactor.compress(work, info, _ask())
    before = await dump()
    async with talk(tmp_path, era) as chat:
        for arguments in ({"refs": "m3"}, {"query": "limiter"}, {}):
            await chat.say("recall_archived", session="taxes", scope="all", **arguments)
    assert await dump() == before


def _ask() -> Any:
    from mcp_compaction.model import Ask

    return Ask(reason="x", target_percent=30)


@both_eras
async def test_ones_own_session_is_meant_before_a_namesake_and_another_project_is_named(
    tmp_path: Path, era: Era
) -> None:
    async with workspace_of(tmp_path) as work:
        own, _ = await compactor.open_session(work, SessionKey(project="/p", name="a"))
        said = read_incoming([{"role": "user", "content": "The tiger is 43."}])
        await compactor.record(work, own, said, via="tool")
        info, _ = await compactor.open_session(work, SessionKey(project="/q", name="a"))
        await compactor.record(
            work, info, read_incoming([{"role": "user", "content": "The zebra is 41."}])
        )
        await compactor.pin(work, info, PinWish("Only in q.", by="user"))
        other, _ = await compactor.open_session(work, SessionKey(project="/q", name="b"))
        await compactor.record(
            work, other, read_incoming([{"role": "user", "content": "A lion is 42."}])
        )
    async with talk(tmp_path, era) as chat:
        own = await chat.say("recall_archived", refs="m1", session="a", scope="all")
        assert "[m1 user, as the agent told it" in own
        assert "The tiger is 43." in own
        found = await chat.say("recall_archived", query="tiger", session="a")
        assert re.search(r"\[m1 user \w{3} \d\d \d\d:\d\d; as the agent told it\]", found)
        by_ref = await chat.say("recall_archived", refs="m1", session="b", scope="all")
        assert "in session b of another project, /q" in by_ref
        brief = await chat.say("recall_archived", session="b", scope="all")
        assert 'session "b" of another project, /q' in brief
        assert PINNED_LABEL not in brief
        assert "its pins hold there; what must hold here is pinned here" in brief


@both_eras
async def test_a_forgotten_session_is_not_meant_any_more(tmp_path: Path, era: Era) -> None:
    async def forget(work: Workspace) -> None:
        info = await compactor.find_session(work, "/p", "p-1")
        await compactor.forget(work, Scope(project="/p", session=info.id))

    async with talk(tmp_path, era) as chat:
        await chat.say("pin_constraint", text=RULE)
        settings = load_settings({**SMALL, "MCP_COMPACTION_HOME": str(tmp_path / "store")})
        work = await open_workspace(settings)
        await forget(work)
        await work.store.close()
        assert "new session" in await chat.say("pin_constraint", text=RULE)


@both_eras
async def test_looking_at_a_session_does_not_make_it_the_one_that_is_meant(
    tmp_path: Path, era: Era
) -> None:
    async with talk(tmp_path, era) as chat:
        await chat.say("record_messages", messages=LONG[:2], session="old")
    async with talk(tmp_path, era) as chat:
        await chat.say("recall_archived", query="limiter", session="old")
        assert 'new session "p-2"' in await chat.say("pin_constraint", text=RULE)
    async with talk(tmp_path, era) as chat:
        await chat.say("recall_archived", session="old")
        pinned = await chat.say("pin_constraint", text=RULE)
        assert 'session "old": the only one this server has used' in pinned


@both_eras
async def test_where_no_session_is_meant_stats_still_show_the_projects_pins(
    tmp_path: Path, era: Era
) -> None:
    async with talk(tmp_path, era) as chat:
        await chat.prompt("pin", text=RULE)
        await chat.say("pin_constraint", text="mine", session="second")
    async with talk(tmp_path, era) as chat:
        stats = await chat.say("context_stats")
        assert stats.startswith(PINNED_LABEL)
        assert RULE in stats
        assert "which session?" in stats


# Pins that bind others


@both_eras
async def test_a_pin_for_others_is_announced_once_with_who_when_and_how(
    tmp_path: Path, era: Era
) -> None:
    async with talk(tmp_path, era) as chat:
        assert 'new session "p-1"' in await chat.prompt("pin", text=RULE)
        for name in ("p-1", "decoy"):  # who plants a rule cannot swallow its announcement
            pinned = await chat.say("pin_constraint", text="mine", kind="note", session=name)
            assert "since the last session" not in pinned
        await chat.say("recall_archived", query="push", scope="all")
    async with talk(tmp_path, era) as chat:
        first = await chat.say("pin_constraint", text="Be brief.", session="tuesday")
        assert "pinned for others since the last session here; tell the user:" in first
        assert re.search(
            r"\np1 for this project, by user by a prompt in session p-1, \w{3} \d\d \d\d:\d\d",
            first,
        )
        assert "since the last session" not in await chat.say("context_stats", session="tuesday")


@both_eras
async def test_an_agent_cannot_drop_a_users_pin_through_the_tool(tmp_path: Path, era: Era) -> None:
    asked: list[str] = []

    async def declines(_: Any, params: Any) -> Any:
        from mcp.types import ElicitResult

        asked.append(params.message)
        return ElicitResult(action="decline")

    async def check_refusals(chat: Talk) -> None:
        await chat.prompt("pin", text=RULE)
        block = await chat.read("p-1/pinned")
        for changed in (
            {"scope": "global", "expires": "2999-01-01T00:00:00+00:00"},
            {"scope": "global"},
            {"expires": "2999-01-01T00:00:00+00:00"},
            {"supersedes": "p1"},
        ):
            text = "Push." if "supersedes" in changed else RULE
            refused = await chat.fail("pin_constraint", text=text, session="p-1", **changed)
            assert "p1 is the user's" in refused
            assert await chat.read("p-1/pinned") == block

    async with talk(tmp_path / "cannot ask", era) as chat:
        await check_refusals(chat)
    async with talk(tmp_path / "says no", era, elicitation_callback=declines) as chat:
        await check_refusals(chat)
    assert len(asked) == 4
    assert "until 2999-01-01" in asked[0]
    assert "to hold everywhere" in asked[1]


@both_eras
async def test_a_rule_of_which_a_host_hands_over_one_word_is_not_pinned(
    tmp_path: Path, era: Era
) -> None:
    async with talk(tmp_path, era) as chat:
        with pytest.raises(MCPError, match="one word of what was typed, and nothing was pinned"):
            await chat.prompt("pin", text="Only")
        assert json.loads(await chat.read("sessions")) == []
