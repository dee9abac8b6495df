"""Sessions are found by their titles, and the newest is taken where none is named."""

from __future__ import annotations

import json
import os

from tests.cli.conftest import Shell
from tests.hosts.given_hosts import claude_line, write_chat


def say(shell: Shell, name: str, *words: str) -> None:
    file = shell.folder / f"{name}.jsonl"
    lines = [json.dumps({"role": "user", "content": text}) for text in words]
    file.write_text("\n".join(lines))
    shell.done("record", str(file), "--session", name)


def test_a_session_is_listed_and_found_by_the_first_words_that_were_said_in_it(
    shell: Shell,
) -> None:
    say(shell, "one", "Fix the login page.", "It uses the harbor limiter.")
    say(shell, "two", "Write the tax report.", "It uses the harbor limiter.")
    assert 'one  "Fix the login page."' in shell.done("sessions")
    assert shell.done("stats", "--session", "login page").startswith("one: 2 messages")
    refused = shell("stats", "--session", "the")
    assert (
        'pass --session with one of: two "Write the tax report.", one "Fix the login page."'
        in refused.err
    )


def test_the_title_that_a_host_gave_comes_first_and_imports_are_numbered_by_time(
    shell: Shell,
) -> None:
    user = shell.as_user().with_environ({"MCP_COMPACTION_PROJECT": ""})
    for name, at in (("b", 1_000), ("a", 2_000)):
        title = json.dumps({"type": "ai-title", "aiTitle": f"The chat {name}"})
        path = write_chat(user.environ, [claude_line(0, f"Do {name}."), title], name)
        os.utime(path, (at, at))
    user.done("import", "claude-code")
    listed = user.done("sessions", "--all")
    assert 'shop-1  "The chat b"' in listed
    assert 'shop-2  "The chat a"' in listed


def test_what_forgets_takes_no_words_of_a_title(shell: Shell) -> None:
    say(shell, "one", "Fix the login page.")
    assert shell("store", "forget", "login", "--yes").code == 2


def test_stats_recall_and_refs_take_the_newest_session_and_say_so(shell: Shell) -> None:
    say(shell, "one", "Fix the login page.", "It uses the harbor limiter.")
    say(shell, "two", "Write the tax report.", "It uses the harbor limiter.")
    newest = 'the newest of this project, two "Write the tax report.":\n'
    assert shell.done("stats").startswith(f"{newest}two: 2 messages")
    assert shell.done("recall", "harbor", "limiter").startswith(newest)
    assert "Write the tax report." in shell.done("recall", "m1")


def test_the_lab_takes_a_recorded_session(shell: Shell) -> None:
    say(shell, "one", "Fix the login page.", "It uses the harbor limiter.")
    assert "one: all, 2 messages" in shell.done("eval lab", "login", "--only", "ours-25")


def test_a_pin_at_a_terminal_makes_no_empty_session(shell: Shell) -> None:
    assert "it holds from the first one" in shell.as_user().done("pin", "Never push to main.")
    assert "no sessions" in shell.done("sessions")
    say(shell, "one", "Fix the login page.")
    assert shell.done("sessions").count("\n") == 1
    assert "Never push to main." in shell.done("pins")
