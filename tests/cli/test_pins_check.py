"""`mcp-compaction pins check`: the user takes, tries, lifts and removes checks; no agent does."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcp_compaction.checks.file import note_held, read_rules
from mcp_compaction.checks.judge import judge
from mcp_compaction.checks.match import Call
from tests.cli.conftest import Shell

RULE = "Don't push to main."
CHECK = "deny Bash: git push main"
PUSH = "cd app && git push origin main"


def call(number: int, command: str) -> list[dict[str, Any]]:
    use = {"type": "tool_use", "id": f"c{number}", "name": "Bash", "input": {"command": command}}
    result = {"type": "tool_result", "tool_use_id": f"c{number}", "content": "fine"}
    return [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]


@pytest.fixture
def pinned(shell: Shell) -> Shell:
    """A shell whose session pushed once, and whose user then pinned a rule."""
    said = [{"role": "user", "content": "Hello."}, *call(1, "git status"), *call(2, PUSH)]
    shell.done("record", "-", "--session", "monday", stdin=json.dumps(said).encode())
    offered = shell.as_user().done("pin", RULE)
    *told, take = offered.splitlines()[2:]
    assert told == [
        "a check can hold this before a tool runs:",
        f"offered: {CHECK}",
        "would have stopped 1 of 2 recorded calls: m4 `git push origin main`",
    ]
    assert take == f"take it: mcp-compaction pins --home {shell.home} check p1 --accept"
    return shell


def test_an_offer_holds_nothing_before_the_user_takes_it(pinned: Shell) -> None:
    assert read_rules(pinned.home) == []
    shown = json.loads(pinned.done("pins", "check", "p1", "--json"))
    assert (shown["checks"], shown["offered"]) == ([], [CHECK])
    pinned.as_user().done("pins", "check", "p1", "--accept")
    (rule,) = read_rules(pinned.home)
    assert (rule.ref, rule.text, list(map(str, rule.checks))) == ("p1", RULE, [CHECK])
    assert f"check: {CHECK}" in pinned.done("pins")


def test_an_agent_can_neither_set_nor_widen_nor_lift_a_check(pinned: Shell) -> None:
    pinned.as_user().done("pins", "check", "p1", "--accept")
    before = read_rules(pinned.home)
    for words in (["--remove"], ["--set", "remind Bash: ls"], ["--accept"], ["--once"]):
        ran = pinned("pins", "check", "p1", *words)
        assert ran.code != 0
        assert "only the user can do this: run it in a terminal" in ran.err
    assert pinned("unpin", "p1").code != 0
    assert read_rules(pinned.home) == before
    assert not list((pinned.home / "checks").glob("once-*"))


def test_the_user_writes_tries_lifts_and_removes_checks(pinned: Shell) -> None:
    user = pinned.as_user()
    lines = ["ask Bash: git status", "must tests before Bash: git push"]
    shown = user.done("pins", "check", "p1", "--set", *lines)
    assert "would have stopped 0 of 2 recorded calls; asked about 2: m2 `git status`, m4" in shown
    assert "asked about 2" in pinned.done("pins", "check", "p1", "--try")
    assert user("pins", "check", "p1", "--set", "allow Bash: ls").code == 2
    user.done("pins", "check", "p1", "--once")
    assert (pinned.home / "checks/once-p1").exists()
    user.done("pins", "check", "p1", "--remove")
    assert read_rules(pinned.home) == []


def test_a_check_leaves_with_its_pin(pinned: Shell) -> None:
    pinned.as_user().done("pins", "check", "p1", "--accept")
    pinned.as_user().done("unpin", "p1")
    assert read_rules(pinned.home) == []


def test_a_check_is_gone_with_what_is_forgotten(pinned: Shell) -> None:
    pinned.as_user().done("pins", "check", "p1", "--accept")
    pinned.as_user().done("forget", "--project", "--yes")
    assert read_rules(pinned.home) == []


def test_doctor_says_which_checks_are_in_force_and_which_hosts_cannot_hold(pinned: Shell) -> None:
    pinned.as_user().done("pins", "check", "p1", "--accept")
    out = pinned("doctor", "--no-server").out
    assert f"p1 holds in {pinned.folder / 'project'}: {CHECK}" in out
    assert "Cursor" in out.partition("cannot hold a call")[0].rpartition("checks hold in")[2]
    (pinned.home / "checks/rules.json").write_text("{")
    assert "the checks of pins cannot be read" in pinned("doctor", "--no-server").out


def test_held_calls_of_a_chat_that_a_host_names_are_noted(pinned: Shell) -> None:
    pinned.as_user().done("pins", "check", "p1", "--accept")
    rules = read_rules(pinned.home)
    project = str(pinned.folder / "project")
    (held,) = judge(Call("Bash", {"command": PUSH}, project, project), rules)
    note_held(pinned.home, held, "claude-code", "s1", "c2")
    assert (pinned.home / "checks/held.jsonl").stat().st_mode & 0o777 == 0o600
