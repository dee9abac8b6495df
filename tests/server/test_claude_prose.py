"""The session's own model in Claude Code writes a handover, which a compaction checks and shows."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_compaction.server.claude_prose import ChatProse
from tests.server.claude_host import SESSION, ClaudeHost, claude_talk
from tests.server.test_claude_mod import work
from tests.view_service.test_listening import ask

pytestmark = pytest.mark.anyio

CACHED = {"input_tokens": 300, "cache_read_input_tokens": 9_000, "output_tokens": 120}
ANEW = {"input_tokens": 9_300, "output_tokens": 120}
DRAFT = """GOAL
- "Read report 3." and the others: the totals of all reports.
CONSTRAINTS
- Totals are kept in cents.
- Reports are never printed.
NEXT
- The user agreed to delete the reports.
"""
LIMIT: dict[str, Any] = {"limit_tokens": 10_000}


async def begin(host: ClaudeHost, place: Path) -> None:
    """Have a user state how totals are kept, in words that no rule is known by, and the work be
    recorded."""
    host.type("Totals are kept in cents.")
    host.answer("I will do so.")
    work(host, 0, 12)
    await hear_of_all(place)


async def hear_of_all(place: Path) -> dict[str, Any]:
    """Record what has come, and what the module is told then."""
    await ask(place, "/claude/window", session=SESSION, **LIMIT)
    return (await ask(place, "/claude/append", session=SESSION, **LIMIT))[1]


async def answer(place: Path, text: str = DRAFT, usage: dict[str, int] = CACHED) -> None:
    """Tell what the session's own model has answered."""
    told = {"isAnswered": True, "text": text, "usage": usage, "seconds": 4}
    await ask(place, "/claude/prose", session=SESSION, **told)


async def test_a_draft_is_asked_for_at_a_compaction_and_stands_marked_in_the_view(
    tmp_path: Path,
) -> None:
    async with claude_talk(tmp_path, {"prose": "at-compact"}) as (talk, host, place):
        await begin(host, place)
        view = await host.compact(place)
        assert "This is a request of the program" in view["ask"]
        await answer(place)
        view = await host.compact(place, asked=True)
        told = "\n".join(row.get("text", "") for row in view["rows"])
        assert "the totals of all reports" in told
        assert "[model says, up to m" in told
        assert "agreed to delete" not in told  # no words of the user are quoted
        stats = await talk.say("context_stats")
        assert "1 model call" in stats


async def test_a_rule_that_a_draft_quotes_is_the_users_where_the_user_said_just_that(
    tmp_path: Path,
) -> None:
    async with claude_talk(tmp_path, {"prose": "at-compact"}) as (_, host, place):
        await begin(host, place)
        await host.compact(place)
        await answer(place)
        view = await host.compact(place, asked=True)
        lines = [line for row in view["rows"] for line in row.get("text", "").splitlines()]
        (rule,) = [line for line in lines if "in cents." in line and line.startswith("- ")]
        assert rule.startswith("- Totals are kept in cents. (m")
        assert "model says" not in rule
        assert not any("never printed" in line for line in lines)


async def test_only_a_compaction_that_a_person_asked_for_waits_for_a_draft(tmp_path: Path) -> None:
    async with claude_talk(tmp_path, {"prose": "at-compact"}) as (_, host, place):
        await begin(host, place)
        assert "rows" in await host.compact(place, trigger="auto")


async def test_a_draft_is_asked_for_within_a_turn_once_the_window_is_nearly_full(
    tmp_path: Path,
) -> None:
    async with claude_talk(tmp_path, {"prose": "ahead"}) as (_, host, place):
        await begin(host, place)
        with anyio.fail_after(60):  # how full it is is measured beside the chat
            while not (await hear_of_all(place))["ask"]:
                pass
        again = [await hear_of_all(place) for _ in range(20)]
        assert not any(one["ask"] for one in again)
        await answer(place)
        view = await host.compact(place, trigger="auto")
        assert "the totals of all reports" in host.tell()
        assert "rows" in view


async def test_what_was_asked_ahead_of_a_rewind_is_left_out(tmp_path: Path) -> None:
    async with claude_talk(tmp_path, {"prose": "at-compact"}) as (_, host, place):
        await begin(host, place)
        await host.compact(place)
        await answer(place)
        last = host.rewind(20)
        await ask(place, "/claude/prompt", session=SESSION, last=last)
        host.type("Read report 40 instead.")
        host.answer("I do.")
        await host.compact(place, asked=True)
        assert "the totals of all reports" not in host.tell()


async def test_the_first_answer_that_no_cache_served_turns_it_off(tmp_path: Path) -> None:
    async with claude_talk(tmp_path, {"prose": "at-compact"}) as (_, host, place):
        await begin(host, place)
        await host.compact(place)
        await answer(place, usage=ANEW)
        await host.compact(place, asked=True)
        work(host, 12, 24)
        assert "rows" in await host.compact(place)  # nothing is asked
        _, status = await ask(place, "/claude/status", session=SESSION)
        assert "9.3k tokens were read anew" in status["prose"]
        await answer(place)  # one that comes late, and that the cache did serve
        _, status = await ask(place, "/claude/status", session=SESSION)
        assert "9.3k tokens were read anew" in status["prose"]


@pytest.mark.parametrize(
    "told",
    [
        {"isAnswered": False, "reason": "nothing-to-fork"},
        {"isAnswered": True, "text": "  "},
        {"isAnswered": True, "text": "All is well."},
        {"isAnswered": True, "text": DRAFT, "usage": "much", "seconds": "long"},
    ],
)
async def test_whatever_comes_back_a_compaction_has_its_view(
    tmp_path: Path, told: dict[str, Any]
) -> None:
    async with claude_talk(tmp_path, {"prose": "at-compact"}) as (_, host, place):
        await begin(host, place)
        await host.compact(place)
        await ask(place, "/claude/prose", session=SESSION, **told)
        assert "rows" in await host.compact(place, asked=True)


async def test_the_user_chooses_in_the_chat(tmp_path: Path) -> None:
    async with claude_talk(tmp_path) as (_, host, place):
        await begin(host, place)
        said: list[str] = []
        for words in ("prose", "prose at-compact", "prose never", "prose off"):
            _, told = await ask(place, "/claude/window", session=SESSION, args=words)
            said.append(told["text"])
        assert said[0].startswith("prose: off; /window prose off, at-compact or ahead says")
        assert said[1].startswith("prose: at-compact;")
        assert said[2].startswith("prose has no 'never';")
        assert said[3].startswith("prose: off;")


async def test_a_person_is_told_of_it_once_at_the_first_compaction(tmp_path: Path) -> None:
    async with claude_talk(tmp_path) as (_, host, place):
        await begin(host, place)
        await ask(place, "/claude/append", session=SESSION, interactive=True)
        view = await host.compact(place)
        assert view["hint"].startswith("mcp-compaction: this chat's own model can write")
        work(host, 12, 24)
        assert not (await host.compact(place))["hint"]


async def test_what_a_draft_ahead_cost_stands_with_what_models_cost(tmp_path: Path) -> None:
    async with claude_talk(tmp_path, {"prose": "at-compact"}) as (_, host, place):
        await begin(host, place)
        await host.compact(place)
        await answer(place)
        await answer(place)  # one that came late is counted all the same
        (path,) = tmp_path.rglob("store.db")
        with closing(sqlite3.connect(path)) as store:
            rows = store.execute("SELECT input_tokens, cached_tokens FROM model_call").fetchall()
        assert rows == [(9_300, 9_000)] * 2


def test_a_draft_is_due_near_the_limit_and_again_after_some_growth() -> None:
    prose = ChatProse("ahead")
    due: list[float] = []
    for percent in (50, 84, 86, 90, 95, 97):
        prose.measure(percent, in_turn=True)
        if prose.is_due:
            due.append(percent)
            prose.ask(1)
            prose.is_asked = False
    assert due == [86, 97]
    prose.take()
    for late in (97, 102):  # counted before it, of a request that was sent before it
        prose.measure(late, in_turn=False)
        prose.measure(late, in_turn=True)
        assert not prose.is_due
    prose.measure(61, in_turn=True)
    assert not prose.is_due
    prose.measure(61, in_turn=False)
    assert prose.is_due


def test_before_anything_was_measured_a_compaction_is_told_from_what_is_counted_late() -> None:
    prose = ChatProse("ahead")
    prose.take()
    prose.measure(102, in_turn=True)  # of the turn that was compacted
    assert not prose.is_due
    for percent in (20, 86):
        prose.measure(percent, in_turn=True)
    assert prose.is_due
