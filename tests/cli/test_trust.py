"""The user says once, at a terminal, that the prompts of programs are their own words."""

from __future__ import annotations

import json
import stat

from tests.cli.conftest import Shell
from tests.hosts.given_hosts import SHOP, claude_line, write_chat

RULE = "Never push to main without a review."
NOWHERE = "headless: prompts that a program sends are nowhere yours\n"


def test_the_pins_of_a_headless_run_are_by_program_until_the_user_trusts_such_runs(
    shell: Shell,
) -> None:
    environ = {"HOME": str(shell.folder / "hosts"), "MCP_COMPACTION_PROJECT": ""}
    user = shell.as_user().with_environ(environ)
    agent = shell.with_environ(environ)
    write_chat(environ, [claude_line(0, RULE, promptSource="sdk", version="2.1.325")])
    user.done("import")
    (session,) = json.loads(user.done("sessions", "--project", SHOP, "--json"))
    here = ("--session", session["name"], "--project", SHOP)
    assert "p1 pinned by the program (constraint, session)" in agent.done("pin", RULE, *here)
    shown = user.done("pins", "--project", SHOP)
    assert f"constraint, session {session['name']}, by the program, " in shown
    assert json.loads(user.done("pins", "--project", SHOP, "--json"))[0]["author"] == "program"
    assert "constraint, session, by program" in user.done("recall", "--refs", "p1", *here)
    assert f"are yours in {SHOP}\n" in user.done("trust", "headless", "--project", SHOP)
    user.done("unpin", "p1", *here)
    assert "p2 pinned (constraint, session)" in agent.done("pin", RULE, *here)
    assert f"headless prompts count as yours in {SHOP}" in user("doctor").out


def test_only_a_terminal_says_whose_prompts_are(shell: Shell) -> None:
    ran = shell("trust", "headless")
    assert ran.code != 0
    assert "only the user can do this: run it in a terminal" in ran.err
    assert shell.done("trust") == NOWHERE
    ran = shell("trust", "headless", "--off")
    assert ran.code != 0


def test_trust_is_listed_and_taken_back_project_by_project(shell: Shell) -> None:
    user = shell.as_user()
    for project in ("/home/ann/shop", "/home/ann/site"):
        user.done("trust", "headless", "--project", project)
    noted = shell.home / "headless-projects.json"
    assert stat.S_IMODE(noted.stat().st_mode) == 0o600
    assert shell.done("trust").count("\n") == 2
    user.done("trust", "headless", "--off", "--project", "/home/ann/shop")
    assert json.loads(shell.done("trust", "--json")) == {"headless": ["/home/ann/site"]}
    user.done("trust", "headless", "--off", "--project", "/home/ann/site")
    assert shell.done("trust") == NOWHERE


def test_a_note_that_is_damaged_trusts_nobody(shell: Shell) -> None:
    shell.home.mkdir(parents=True, exist_ok=True)
    for text in ("{", '{"/home/ann/shop": true}', '"/home/ann/shop"'):
        (shell.home / "headless-projects.json").write_text(text, encoding="utf-8")
        assert shell.done("trust") == NOWHERE
