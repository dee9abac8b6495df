"""Pins that are made while a conversation goes on, on a real store: each is told once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcp_compaction import compactor
from mcp_compaction.compactor.results import PinWish
from mcp_compaction.core.log.pinned import PINNED_LABEL
from mcp_compaction.model import Compaction
from tests.compactor.small_session import (
    WINDOW_FULL,
    assistant,
    called,
    fit,
    long_history,
    open_session,
    ours,
    pin_from_terminal,
    user,
)

pytestmark = pytest.mark.anyio

Json = dict[str, Any]


def pinned(text: str) -> list[Json]:
    """The call by which an agent pins a text, with its answer."""
    call, result = called("t-pin", f"p1 pinned: {text}")
    call["content"][0] |= {"name": "mcp__compaction__pin_constraint", "input": {"text": text}}
    return [call, result]


async def test_a_pin_from_the_command_line_is_told_once_after_the_users_next_words(
    tmp_path: Path,
) -> None:
    history = [user("Begin."), *called("t1", "one")]
    async with open_session(tmp_path) as (work, info):
        await compactor.fit(work, info, history)
        await pin_from_terminal(work, info, "Never push.")
        history += called("t2", "two")
        assert ours(await fit(work, info, history)) == []
        history += [assistant("Done."), user("Next.")]
        told = await fit(work, info, history)
        assert told[-2] is history[-1]
        assert "Never push." in told[-1]["content"]
        history += [assistant("Nexted."), user("And next.")]
        later = await fit(work, info, history)
        assert json.dumps(later[: len(told)]) == json.dumps(told)
        assert json.dumps(later).count("Never push.") == 1


async def test_a_pin_by_a_tool_call_is_shown_from_the_next_compaction_on(tmp_path: Path) -> None:
    history = long_history()
    async with open_session(tmp_path) as (work, info):
        await compactor.fit(work, info, history)
        await compactor.pin(work, info, PinWish("Only the staging key.", by="agent"))
        history += [*pinned("Only the staging key."), user("Fine.")]
        sent = await fit(work, info, history)
        assert ours(sent) == []
        assert isinstance(await compactor.compress(work, info, WINDOW_FULL), Compaction)
        sent = await fit(work, info, history)
        assert sent[1]["content"].startswith(PINNED_LABEL)
        assert "Only the staging key." in sent[1]["content"]


@pytest.mark.parametrize(
    ("said", "text", "is_told"),
    [
        ([user("Please don't use tabs.")], "use tabs", True),
        ([user("Go on with the parcels.")], "Go", True),
        ([user("They wrote:\n> Never push.")], "Never push.", True),
        ([*called("t1", "Never push.")], "Never push.", True),
        ([user("Wait. Never push. Then go on.")], "Never push.", False),
        (pinned("Never push to main."), "Never push", True),
        (pinned("Never push."), "Never push.", True),  # by a call that did not make this pin
    ],
)
async def test_a_pin_is_told_unless_the_user_has_said_just_that(
    tmp_path: Path, said: list[Json], text: str, is_told: bool
) -> None:
    history = [user("Begin."), assistant("Yes.")]
    async with open_session(tmp_path) as (work, info):
        await compactor.fit(work, info, history)
        await pin_from_terminal(work, info, text)
        for number in range(2):
            history = [*history, *said, assistant(f"Done {number}."), user("More.")]
            assert bool(ours(await fit(work, info, history))) == is_told
            said = []


async def test_a_pin_is_still_told_when_the_words_before_it_are_cut(tmp_path: Path) -> None:
    history = [user("Begin."), assistant("Begun."), user("Next.")]
    async with open_session(tmp_path) as (work, info):
        await compactor.fit(work, info, history[:1])
        await pin_from_terminal(work, info, "Never push.")
        told = await fit(work, info, history)
        assert len(ours(told[3:])) == 1
        for cut in ([*history[:2], *called("t1", "one")], [*told[:2], *told[3:]]):
            assert len(ours(await fit(work, info, cut))) == 1
