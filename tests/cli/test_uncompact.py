"""`uncompact`: a chat that its host compacted has its own words back."""

from __future__ import annotations

import json

import pytest

from tests.audit.chats import RULE, SUMMARY, ClaudeChat
from tests.cli.conftest import Shell


@pytest.fixture
def user(shell: Shell) -> Shell:
    """A user at a terminal whose Claude Code has compacted a chat twice."""
    home = shell.folder / "hosts"
    folder = home / ".claude/projects/-work"
    folder.mkdir(parents=True)
    chat = ClaudeChat(folder)
    chat.ask(RULE)
    chat.say("I understand.")
    chat.compact(SUMMARY)
    chat.ask("Go on, and keep port 8080.")
    chat.compact("We talked.")
    chat.ask("What is next?")
    return shell.as_user().with_environ({"HOME": str(home), "MCP_COMPACTION_PROJECT": ""})


def test_every_sentence_of_the_user_is_in_the_session_that_any_chat_can_go_on_from(
    user: Shell,
) -> None:
    said = user.done("uncompact", "3f2a91c0")
    name = said.partition(":")[0]
    assert "from before 2 compactions by its host" in said
    assert f'say in a fresh chat: "continue {name}"' in said
    for sentence in (RULE, "Go on, and keep port 8080.", "What is next?"):
        assert sentence in user.done(
            "recall", "--refs", "m1..m6", "--session", name, "--project", "/work"
        )


def test_again_it_records_nothing_twice(user: Shell) -> None:
    user.done("uncompact", "3f2a91c0")
    before = user.dump()
    assert json.loads(user.done("uncompact", "3f2a91c0", "--json"))["new"] == 0
    assert user.dump() == before
