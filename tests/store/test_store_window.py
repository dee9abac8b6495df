"""The store counts a window by what came since, and finds a pin's words without reading it all."""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path

import pytest
from given_store import NOW, batch, compaction, here, history, new_session, opened, said

from mcp_compaction.core.log.passages import passages_of
from mcp_compaction.model import NewMessage
from mcp_compaction.ports import WindowCount
from mcp_compaction.store.connect import connect
from mcp_compaction.store.load import count_window
from mcp_compaction.store.requests import requests_with

pytestmark = pytest.mark.anyio

RULE = "Never deploy on a Friday afternoon without asking the on-call engineer first."


def steps_of(path: Path, work: Callable[[sqlite3.Connection], object]) -> int:
    """How many instructions SQLite runs for some work."""
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    with closing(connect(path, deadline=5)) as connection:
        connection.set_progress_handler(count, 1)
        work(connection)
    return steps


async def filled(path: Path, size: int) -> tuple[int, WindowCount]:
    """A session of so many messages, and its window as it was counted one message earlier."""
    async with opened(path) as store:
        session = await new_session(store)
        messages = [said(f"message number {n}") for n in range(size)]
        await store.append(session, batch(*messages), NOW)
        known = await store.count_window(session, NOW)
        await store.append(session, batch(said(RULE)), NOW)
        return session, known


async def count_anew(path: Path, size: int) -> int:
    session, known = await filled(path, size)
    return steps_of(path, lambda c: count_window(c, session, NOW, known))


async def look_for_rule(path: Path, size: int) -> int:
    session, _ = await filled(path, size)
    return steps_of(path, lambda c: requests_with(c, here(session), RULE, 20))


@pytest.mark.parametrize("cost_of", [count_anew, look_for_rule])
async def test_a_window_eighteen_times_as_long_costs_no_more_steps(
    cost_of: Callable[[Path, int], Awaitable[int]], tmp_path: Path
) -> None:
    small = await cost_of(tmp_path / "small.db", 50)
    large = await cost_of(tmp_path / "large.db", 900)
    assert small <= large < 2 * small


async def test_a_count_of_an_older_view_is_not_gone_on_from(tmp_path: Path) -> None:
    async with opened(tmp_path / "store.db") as store:
        session = await new_session(store)
        await store.append(session, batch(*history("one", "two", "three", "four", "5", "6")), NOW)
        old = await store.count_window(session, NOW)
        assert (old.messages, old.upto) == (6, 6)
        assert await store.save(session, compaction())
        await store.append(session, batch(said("seven")), NOW)
        fresh = await store.count_window(session, NOW)
        assert await store.count_window(session, NOW, old) == fresh
        loaded = await store.load(session, NOW)
        assert (fresh.messages, fresh.upto) == (len(loaded.messages), 7)
        assert fresh.tokens == len("one") + 4 + len("6") + len("seven")  # m5 is cut to 4 tokens
        assert fresh.session.digests == loaded.digests


def long_request(text: str) -> NewMessage:
    """A request cut into passages as recording cuts it."""
    plain = said(text)
    return plain.model_copy(update={"passages": passages_of("user", plain.parts)})


@pytest.mark.parametrize("before", range(400, 600, 20))
async def test_a_rule_is_found_wherever_a_passage_is_cut(before: int, tmp_path: Path) -> None:
    async with opened(tmp_path / "store.db") as store:
        session = await new_session(store)
        rule = f"{RULE} Rather wait until Monday, however urgent it seems."
        lead = ("a plain word and " * 60)[:before].rstrip()
        text = f"{lead}. {rule} {'and more of it ' * 60}"
        await store.append(session, batch(long_request(text)), NOW)
        found = await store.requests_with(here(session), rule, 20)
        assert [original.message.seq for original in found] == [1]


async def test_a_short_sentence_is_found_among_many_that_share_its_words(tmp_path: Path) -> None:
    async with opened(tmp_path / "store.db") as store:
        session = await new_session(store)
        others = [said(f"use what you like, then tabs or spaces {n}") for n in range(300)]
        await store.append(session, batch(*others[:150], said("Use tabs."), *others[150:]), NOW)
        found = await store.requests_with(here(session), "Use tabs.", 20)
        assert [original.message.seq for original in found] == [151]


async def test_what_the_host_says_comes_before_what_an_agent_told(tmp_path: Path) -> None:
    async with opened(tmp_path / "store.db") as store:
        session = await new_session(store)
        told = [said(f"{RULE} {n}") for n in range(30)]
        await store.append(session, batch(*told).model_copy(update={"via": "tool"}), NOW)
        await store.append(session, batch(said(f"Please: {RULE}")), NOW)
        found = await store.requests_with(here(session), RULE, 20)
        assert found[0].message.seq == 31
        assert len(found) == 20


async def test_only_the_user_messages_of_one_session_are_given(tmp_path: Path) -> None:
    async with opened(tmp_path / "store.db") as store:
        session = await new_session(store)
        await store.append(session, batch(said(RULE, "assistant"), said(RULE)), NOW)
        found = await store.requests_with(here(session), RULE, 20)
        assert [original.message.seq for original in found] == [2]


@pytest.mark.parametrize("text", ['say "yes" AND no', "-- * ^ (", "marks : role", "…", "NEAR(a b)"])
async def test_no_sign_of_a_text_is_an_operator(text: str, tmp_path: Path) -> None:
    async with opened(tmp_path / "store.db") as store:
        session = await new_session(store)
        await store.append(session, batch(said(text), said("something else")), NOW)
        found = await store.requests_with(here(session), text, 20)
        has_words = any(sign.isalnum() for sign in text)
        assert [original.message.seq for original in found] == ([1] if has_words else [])
