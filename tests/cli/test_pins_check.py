"""`mcp-compaction pins check`: the user takes, tries, lifts and removes checks; no agent does."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from mcp_compaction.checks.file import note_held, read_held, read_rules
from mcp_compaction.checks.judge import judge
from mcp_compaction.checks.match import Call
from mcp_compaction.cli import bite
from mcp_compaction.hosts.hook_notes import read_trouble
from tests.cli.conftest import Shell

RULE = "Don't push to main."
CHECK = "deny Bash: git push main"
START = "from mcp_compaction.cli.entry import run; run()"
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
    pinned.as_user().done("store forget", "--project", "--yes")
    assert read_rules(pinned.home) == []


def test_doctor_says_which_checks_are_in_force_and_which_hosts_cannot_hold(pinned: Shell) -> None:
    pinned.as_user().done("pins", "check", "p1", "--accept")
    out = pinned("doctor").out
    assert f"p1 holds in {pinned.folder / 'project'}: {CHECK}" in out
    assert "Cursor" in out.partition("cannot hold a call")[0].rpartition("checks hold in")[2]
    (pinned.home / "checks/rules.json").write_text("{")
    assert "the checks of pins cannot be read" in pinned("doctor").out


def ask_hook(
    shell: Shell, host: str, chat: str = "s1", command: str = PUSH, **more: str
) -> dict[str, Any]:
    """What the command of a host's hook answers to a line, as to a push."""
    project = str(shell.folder / "project")
    given = {"cwd": project, "session_id": chat, "tool_name": "Bash", **more}
    told = json.dumps({**given, "tool_input": {"command": command}, "tool_use_id": "c9"})
    out = StringIO()
    argv = [host, "PreToolUse", "--home", str(shell.home)]
    assert bite.run(argv, out, StringIO(told), shell.environ) == 0
    return json.loads(out.getvalue() or "{}")


@pytest.mark.parametrize("place", ["file", "store"])
def test_a_line_that_is_no_check_lifts_no_other_and_is_told(pinned: Shell, place: str) -> None:
    user = pinned.as_user()
    user.done("pin", "Never use npm.")
    for ref in ("p1", "p2"):
        user.done("pins", "check", ref, "--accept")
    if place == "file":
        path = pinned.home / "checks/rules.json"
        told = json.loads(path.read_text())
        told["rules"][1]["checks"] = ["forbid Bash: npm"]
        told["rules"].append("no rule")
        path.write_text(json.dumps(told))
    else:
        with closing(sqlite3.connect(pinned.home / "store.db", isolation_level=None)) as store:
            store.execute("UPDATE pin SET checks = 'forbid Bash: npm' WHERE number = 2")
        user.done("pin", "Never use yarn.")  # which writes the file anew
        assert "holding nothing: forbid Bash: npm" in user.done("pins", "check", "p2")

    said = ask_hook(pinned, "claude-code")["hookSpecificOutput"]
    assert said["permissionDecision"] == "deny"
    out = pinned("doctor").out
    assert f": {CHECK}" in out
    assert "p2 has a line that is no check and holds nothing: forbid Bash: npm" in out
    said = ask_hook(pinned, "claude-code", command="ls")["hookSpecificOutput"]
    assert "Not all checks of pins can be read: no check is p2: forbid" in said["additionalContext"]
    assert ask_hook(pinned, "claude-code", command="ls") == {}


def test_where_the_checks_cannot_be_read_the_call_goes_on_and_that_is_said_once_in_a_chat(
    pinned: Shell,
) -> None:
    pinned.as_user().done("pins", "check", "p1", "--accept")
    (pinned.home / "checks/rules.json").write_text("{")
    for host, more in (("codex", {}), ("gemini", {"hook_event_name": "AfterTool"})):
        said = ask_hook(pinned, host, host, **more)["hookSpecificOutput"]
        assert "What cannot be read holds no call until" in said["additionalContext"]
        assert "permissionDecision" not in said
        assert ask_hook(pinned, host, host, **more) == {}
    counted = [one.what for one in read_trouble(pinned.environ)]
    assert len([what for what in counted if "was not checked: Expecting" in what]) == 4


def test_who_wants_to_be_asked_is_asked_each_time_the_checks_cannot_be_read(pinned: Shell) -> None:
    pinned.as_user().done("pins", "check", "p1", "--accept")
    (pinned.home / "checks/rules.json").write_text("{")
    shell = replace(pinned, extra=(("MCP_COMPACTION_CHECKS_FAIL", "ask"),))
    for _ in range(2):
        said = ask_hook(shell, "claude-code")["hookSpecificOutput"]
        assert said["permissionDecision"] == "ask"
    assert ask_hook(shell, "gemini", hook_event_name="BeforeTool")["decision"] == "deny"


def test_a_call_that_cannot_be_judged_in_time_is_asked_about_if_it_says_what_a_check_does(
    pinned: Shell,
) -> None:
    user = pinned.as_user()
    user.done("pins", "check", "p1", "--set", "must tests before Bash: git commit")
    record = pinned.folder / "record.jsonl"
    os.mkfifo(record)  # which nobody writes: who reads it waits for ever
    told = {"cwd": str(pinned.folder / "project"), "session_id": "s1", "tool_name": "Bash"}
    told |= {"transcript_path": str(record), "tool_input": {"command": "git commit -m x"}}
    place = ("--home", str(pinned.home))
    ran = subprocess.run(
        [sys.executable, "-Ic", START, "hook", "claude-code", "PreToolUse", *place],
        input=json.dumps(told),
        env=dict(pinned.environ),
        capture_output=True,
        text=True,
        check=True,
    )
    said = json.loads(ran.stdout)["hookSpecificOutput"]
    assert said["permissionDecision"] == "ask"
    assert "it took too long" in said["permissionDecisionReason"]


@pytest.mark.parametrize("state", ["locked", "unreadable"])
def test_checks_hold_whatever_the_store_is_in(pinned: Shell, state: str) -> None:
    pinned.as_user().done("pins", "check", "p1", "--accept")
    store = pinned.home / "store.db"
    with closing(sqlite3.connect(store, isolation_level=None)) as other:
        if state == "locked":
            other.execute("BEGIN EXCLUSIVE")
        else:
            store.write_bytes(b"no store")
        said = ask_hook(pinned, "claude-code")["hookSpecificOutput"]
    assert said["permissionDecision"] == "deny"


def test_two_hooks_that_are_told_of_one_call_give_one_answer(pinned: Shell) -> None:
    user = pinned.as_user()
    user.done("pins", "check", "p1", "--accept")
    plugged = replace(pinned, extra=(("CLAUDE_PLUGIN_ROOT", "/plugin"),))
    user.done("pins", "check", "p1", "--once")
    assert (ask_hook(pinned, "claude-code"), ask_hook(plugged, "claude-code")) == ({}, {})
    for shell in (pinned, plugged):  # another call by the same id, as some models number them
        said = ask_hook(shell, "claude-code")["hookSpecificOutput"]
        assert said["permissionDecision"] == "deny"
    assert [note.verdict for note in read_held(pinned.home)] == ["allowed", "deny"]


def hook_commands(shell: Shell) -> Iterator[str]:
    """The commands that Claude Code is told to run before a tool: those of `install`, and of the
    plugin alone."""
    shell.done("install", "claude-code")
    settings = shell.folder / ".claude/settings.json"
    files = [settings, *shell.home.rglob("hooks.json")]
    for path in files:
        (group,) = json.loads(path.read_text("utf-8"))["hooks"]["PreToolUse"]
        yield group["hooks"][0]["command"]
    settings.unlink()


def test_variables_that_come_with_a_repository_do_not_silence_checks(pinned: Shell) -> None:
    pinned.as_user().done("pins", "check", "p1", "--accept")
    project = pinned.folder / "project"
    data = pinned.folder / ".local/share"
    data.mkdir(parents=True)
    commands = list(hook_commands(pinned))
    pinned.home.rename(data / "mcp-compaction")  # the default, which no setting names
    pinned.home.symlink_to(data / "mcp-compaction")
    moved = {"XDG_DATA_HOME": str(project), "XDG_CONFIG_HOME": str(project)}
    moved |= {"MCP_COMPACTION_HOME": str(project), "CLAUDE_CONFIG_DIR": str(project)}
    (project / ".claude").mkdir(parents=True)
    (project / ".claude/settings.json").write_text(json.dumps({"env": moved}))
    (project / "settings.json").write_text('"hook claude-code PreToolUse"')
    given = {"cwd": str(project), "session_id": "s1", "tool_name": "Bash"}
    told = json.dumps({**given, "tool_input": {"command": PUSH}})
    environ = {**moved, "HOME": str(pinned.folder), "CLAUDE_PROJECT_DIR": str(project)}
    environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    assert len(commands) == 2
    for command in commands:
        ran = subprocess.run(
            ["sh", "-c", command],
            input=told,
            env=environ,
            capture_output=True,
            text=True,
            check=True,
        )
        assert '"deny"' in ran.stdout, command


def test_held_calls_of_a_chat_that_a_host_names_are_noted(pinned: Shell) -> None:
    pinned.as_user().done("pins", "check", "p1", "--accept")
    rules = read_rules(pinned.home)
    project = str(pinned.folder / "project")
    (held,) = judge(Call("Bash", {"command": PUSH}, project, project), rules)
    note_held(pinned.home, held, "claude-code", "s1", "c2")
    assert (pinned.home / "checks/held.jsonl").stat().st_mode & 0o777 == 0o600
