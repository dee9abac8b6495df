"""A large first request before anything follows it: whole where it fits, else a preview."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcp_compaction import compactor
from mcp_compaction.core.policy import Policy
from tests.compactor.small_session import assistant, fit, open_session, user

pytestmark = pytest.mark.anyio

Json = dict[str, Any]
SECRET = "sk-ant-api03-" + "Zx9" * 30
ASKED = "Never delete a parcel. Which depot got the most of them?"
LETTER = (
    f"Read my letter. {'All is well here. ' * 200}{ASKED} {'It rains. ' * 200}Yours, the depot."
)


def first_request(share: float, window: int) -> Json:
    """A request that takes a share of a window, and ends with a rule and a question."""
    rows = [f"{n} parcel {n * 7919 % 10007} to depot {n * 31 % 997}" for n in range(9_999)]
    text = f"Read this log. The key is {SECRET}.\n{ASKED}\n" + "\n".join(rows)
    return user(text[: int(2.75 * share * window)])


async def test_a_first_request_that_does_not_fit_is_a_preview_with_its_rules_and_questions(
    tmp_path: Path,
) -> None:
    policy = Policy(window_tokens=20_000)
    async with open_session(tmp_path, policy=policy) as (work, info):
        asked = first_request(1.5, 20_000)
        fitted = await compactor.fit(work, info, [asked])
        shown = fitted.messages[0]["content"]
        assert isinstance(shown, str)
        assert shown.startswith("Read this log.")
        assert asked["content"][-20:] in shown
        assert "recall_archived refs m1" in shown
        assert all(sentence in shown for sentence in ("Never delete a parcel.", "Which depot"))
        assert 20 < fitted.fill.percent <= 40
        longer = [asked, assistant("Depot 5."), user("Thanks.")]
        sent = await fit(work, info, longer)
        assert json.dumps(sent[0]) == json.dumps(fitted.messages[0])


async def test_a_first_request_for_which_a_large_system_leaves_no_room_is_not_lost(
    tmp_path: Path,
) -> None:
    async with open_session(tmp_path, policy=Policy(window_tokens=20_000)) as (work, info):
        body = {"system": "Parcels are sorted by depot. " * 4_000, "messages": [user(LETTER)]}
        shown = (await compactor.fit(work, info, body)).messages[0]["content"]
        assert isinstance(shown, str)
        assert shown.startswith("Read my letter.")
        assert "Yours, the depot." in shown
        assert all(sentence in shown for sentence in ASKED.split(". "))
        assert len(shown) < 1_200
