"""Facts for later sessions through the tools: offered to the agent, accepted by the user alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from mcp.types import ElicitResult

from tests.server.talking import ERAS, Era, talk
from tests.sessions import proved

pytestmark = pytest.mark.anyio

TOLD = "Works here: .venv/bin/pytest -q"
SAID = proved(".venv/bin/pytest -q")
WISH = {"text": TOLD, "kind": "fact", "scope": "project"}

both_eras = pytest.mark.parametrize("era", ERAS)


@both_eras
async def test_a_fact_is_offered_kept_when_the_user_agrees_and_told_in_the_next_session(
    tmp_path: Path, era: Era
) -> None:
    asked: list[str] = []

    async def agrees(_: Any, params: Any) -> ElicitResult:
        asked.append(params.message)
        return ElicitResult(action="accept", content={"sure": True})

    async with talk(tmp_path, era, elicitation_callback=agrees) as chat:
        await chat.say("record_messages", messages=SAID, session="monday")
        stats = await chat.say("context_stats", session="monday")
        assert f'fact for later sessions? m3: "{TOLD}"' in stats
        kept = await chat.say("pin_constraint", **WISH, session="monday")
        assert "p1 (fact, project, by user, until " in kept
        assert "longer while sessions use it" in kept
    assert asked == [
        "The agent wants to keep a fact for later sessions of this project, while they use it: "
        + TOLD
    ]
    async with talk(tmp_path, era) as chat:
        await chat.say("record_messages", messages=SAID[1:], session="tuesday")
        stats = await chat.say("context_stats", session="tuesday")
        assert "p1 fact, by user, kept " in stats
        assert f" from session monday: {TOLD}" in stats


@both_eras
async def test_an_agent_whose_user_cannot_be_asked_or_says_no_keeps_no_fact(
    tmp_path: Path, era: Era
) -> None:
    async def declines(_: Any, params: Any) -> ElicitResult:
        return ElicitResult(action="decline")

    for callback in (None, declines):
        async with talk(tmp_path, era, elicitation_callback=callback) as chat:
            await chat.say("record_messages", messages=SAID, session="monday")
            refused = await chat.fail("pin_constraint", **WISH, session="monday")
            assert "a project pin needs the user" in refused
            assert "--kind fact" in refused
            assert await chat.read("monday/pinned") == ""
