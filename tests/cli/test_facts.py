"""`mcp-compaction facts`: what sessions offer, kept and dropped by the user at a terminal."""

from __future__ import annotations

import json
import os
from typing import Any, cast

import pytest

from mcp_compaction.core.log.pinned import pinned_block
from mcp_compaction.model import Pin
from mcp_compaction.store.listing import list_chat_pins
from tests.cli.conftest import Shell
from tests.sessions import proved

TESTS, WEB = "Works here: .venv/bin/pytest -q", "Works here: npm test"


@pytest.fixture
def taught(shell: Shell) -> Shell:
    """A shell whose one session taught two facts."""
    said = [*proved(".venv/bin/pytest -q"), *proved("npm test")]
    shell.done("record", "-", "--session", "monday", stdin=json.dumps(said).encode())
    return shell


def facts(shell: Shell) -> dict[str, Any]:
    return json.loads(shell.done("facts", "--json"))


def test_offers_are_listed_with_where_they_were_said_and_told_to_nobody(taught: Shell) -> None:
    web, tests = [offer["id"] for offer in facts(taught)["offered"]]
    assert taught.done("facts").splitlines() == [
        "offered, and told to nobody yet:",
        f"{web} {WEB}",
        "   command, in m7 of monday",
        f"{tests} {TESTS}",
        "   command, in m3 of monday",
        "keep one: mcp-compaction facts accept ID; or not: mcp-compaction facts drop ID",
    ]
    assert json.loads(taught.done("pins", "--json")) == []


def test_the_user_accepts_one_and_drops_the_other(taught: Shell) -> None:
    web, tests = [offer["id"] for offer in facts(taught)["offered"]]
    user = taught.as_user()
    kept = user.done("facts", "accept", tests)
    assert "p1 kept until " in kept
    assert kept.endswith(f", longer while sessions use it: {TESTS}\n")
    assert f"{web} declined: {WEB}\n" in user.done("facts", "drop", web)
    found = facts(taught)
    assert [fact["text"] for fact in found["facts"]] == [TESTS]
    assert found["offered"] == []
    assert "told to every session of this project:\np1 " in taught.done("facts")
    assert f"p1 dropped: {TESTS}\n" in user.done("facts", "drop", "p1")
    assert taught.done("facts").startswith("no facts are kept for this project")


def test_a_hook_tells_a_fact_as_the_pinned_block_does(taught: Shell) -> None:
    tests = facts(taught)["offered"][1]["id"]
    taught.as_user().done("facts", "accept", tests)
    (fact,) = facts(taught)["facts"]
    project = os.path.realpath(taught.folder / "project")
    block = pinned_block(cast("list[Any]", list_chat_pins(taught.home, project)))
    assert block == pinned_block([Pin.model_validate(fact)])
    assert " from session monday: " in block


@pytest.mark.parametrize("action", ["accept", "drop"])
def test_without_a_terminal_nothing_is_accepted_or_dropped(action: str, taught: Shell) -> None:
    offered = facts(taught)["offered"]
    ran = taught("facts", action, offered[0]["id"])
    assert ran.code == 2
    assert ran.err.endswith("only the user can do this: run it in a terminal.\n")
    assert facts(taught)["offered"] == offered
