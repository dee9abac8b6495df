"""The import command takes in what hosts wrote, and says what came of it."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Shell
from tests.hosts.given_hosts import CHATS, SHOP, claude_line, make_home, write_chat


@pytest.fixture
def user(shell: Shell) -> Shell:
    """A user at a terminal in whose home four hosts have written."""
    make_home(shell.folder / "hosts")
    environ = {"HOME": str(shell.folder / "hosts"), "MCP_COMPACTION_PROJECT": ""}
    return shell.as_user().with_environ(environ)


def words_of(shell: Shell, session: str, ref: str) -> str:
    return shell.done("recall", "--refs", ref, "--session", session, "--project", SHOP)


def test_all_that_hosts_wrote_is_taken_in_once(user: Shell) -> None:
    said = user.done("import")
    assert said.count("in the new session ") == 10
    assert f"recorded 20 messages in the new session shop-1 of {SHOP}\n" in said
    assert said.endswith("93 new messages in all\n")
    before = user.dump()
    again = user.done("import")
    assert again == "10 transcripts had nothing new\n0 new messages in all\n"
    assert user.dump() == before
    assert "First prompt: never push to main." in words_of(user, "shop-1", "m1")


def test_what_was_typed_elsewhere_is_the_agents_word_here_and_the_users_at_home(
    user: Shell,
) -> None:
    project = str(user.folder / "project")
    told = user.done("import", "codex", "--project", project)
    assert "the chat was held in /home/ann/shop: who said what in it" in told
    assert not any(one["is_hosts_word"] for one in taken_in(user, "--project", project))
    assert all(one["session"]["project"] == SHOP for one in taken_in(user))
    assert json.loads(user.done("sessions", "--project", project, "--json")) == []


def taken_in(user: Shell, *more: str) -> list[dict[str, Any]]:
    """What the import of Codex's chats tells programs."""
    return json.loads(user.done("import", "codex", "--json", *more))["transcripts"]


def test_only_a_person_at_a_terminal_can_move_a_hosts_folder(user: Shell) -> None:
    agent = Shell(user.folder, extra=user.extra)
    found = agent("import", "claude-code", "--json").json()
    assert found["new"] == 29
    assert not any(one["is_hosts_word"] for one in found["transcripts"])
    said = agent.done("import", "codex")
    assert "another variable moves the host's folder, which counts only at a terminal: who" in said
    assert "to take it in as the host's own word, run this in a terminal\n" in said


def test_what_is_known_as_the_hosts_word_is_not_recorded_again_as_the_agents(user: Shell) -> None:
    user.done("import")
    before = user.dump()
    agent = Shell(user.folder, extra=user.extra)
    assert agent.done("import").splitlines()[0] == "10 transcripts had nothing new"
    (user.home / "host-folders.json").unlink()  # then nobody has named that home
    assert agent("import", "--json").json()["new"] == 0
    said = agent.done("import")
    assert said.splitlines()[0] == (
        "10 transcripts known as the host's own word: for what is new, run this in a terminal"
    )
    assert user.dump() == before


def messages_in(shell: Shell) -> list[tuple[str, str, str]]:
    """The messages of the store, with the projects they are of and whose word they are."""
    with closing(sqlite3.connect(shell.home / "store.db")) as store:
        rows = store.execute(
            "SELECT project, via, raw FROM message JOIN session ON session.id = session"
        )
        return sorted(rows.fetchall())


def test_what_an_agent_took_in_first_is_not_recorded_again_at_a_terminal(
    user: Shell, tmp_path: Path
) -> None:
    agent = Shell(user.folder, extra=user.extra)
    agent.done("import")
    assert {via for _, via, _ in messages_in(user)} == {"tool"}
    assert user("import", "--json").json()["new"] == 0
    alone = replace(user, folder=tmp_path / "alone")
    alone.done("import")
    assert messages_in(user) == messages_in(alone)
    found = user.done("recall", "First prompt", "--scope", "project", "--project", SHOP)
    assert "First prompt: never push to main." in found
    before = user.dump()
    assert agent("import", "--json").json()["new"] == 0
    assert user.dump() == before


def test_words_that_no_host_said_stay_in_the_session_of_the_agent_that_told_them(
    user: Shell,
) -> None:
    agent = Shell(user.folder, extra=user.extra)
    path = next((user.folder / "hosts" / CHATS).glob("*.jsonl"))
    real = path.read_text(encoding="utf-8")
    assert "never push to main" in real
    path.write_text(real.replace("never push to main", "always push to main"), encoding="utf-8")
    agent.done("import", str(path))
    path.write_text(real, encoding="utf-8")
    assert user("import", str(path), "--json").json()["new"] > 0
    said = messages_in(user)
    assert not [one for one in said if one[0] == SHOP and "always push" in one[2]]
    assert {via for _, via, raw in said if "always push to main" in raw} == {"tool"}
    assert ("host", SHOP) in {(v, p) for p, v, raw in said if "never push to main" in raw}


def test_where_no_host_wrote_anything_no_store_is_made(shell: Shell) -> None:
    first, *looked, last = shell.as_user().done("import").splitlines()
    assert first == "no transcript found in the folder of any host; looked in:"
    assert len(looked) == 4
    assert "/.claude/projects/*/*.jsonl (the folder of Claude Code; set CLAUDE_CONFIG_" in looked[0]
    assert last.startswith("or name a file or folder: mcp-compaction import ")
    assert not shell.home.exists()


def test_a_project_that_records_nothing_is_left_out(user: Shell) -> None:
    config = user.folder / "config/mcp-compaction/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(f'[projects."{SHOP}"]\nrecord = false\n', encoding="utf-8")
    said = user.done("import", "opencode")
    assert f"left out what belongs to {SHOP}: the setting `record` is false for it" in said
    assert said.endswith("0 new messages in all\n")


def test_a_file_that_breaks_off_does_not_stop_the_others(user: Shell) -> None:
    path = user.folder / "hosts/.local/share/opencode/opencode.db"
    path.write_bytes(path.read_bytes()[:2_000])
    ran = user("import")
    assert ran.code == 1
    assert "is not read as a file of opencode" in ran.out
    assert ran.out.count("in the new session ") == 8


def test_a_prompt_of_a_headless_run_is_shown_as_such(shell: Shell) -> None:
    environ = {"HOME": str(shell.folder / "hosts"), "MCP_COMPACTION_PROJECT": ""}
    user = shell.as_user().with_environ(environ)
    rule = "Never push to main without a review."
    write_chat(environ, [claude_line(0, rule, promptSource="sdk", version="2.1.325")])
    user.done("import")
    (session,) = json.loads(user.done("sessions", "--project", SHOP, "--json"))
    here = ("--session", session["name"], "--project", SHOP)
    assert "[m1 user, headless 2026-11-15 " in user.done("recall", "--refs", "m1", *here)
    assert "; headless]\n" in user.done("recall", "push", *here)
    user.done("pin", rule, *here)
    assert "by the user at a terminal" in user.done("pins", "--project", SHOP)
