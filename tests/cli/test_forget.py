"""Forgetting: asked for twice, done once, and told."""

from __future__ import annotations

import json
import shlex
import sqlite3
from contextlib import closing
from typing import Any

import pytest

from mcp_compaction.checks.check import parse_check
from mcp_compaction.checks.file import note_held, read_held
from mcp_compaction.checks.judge import Rule, judge
from mcp_compaction.checks.match import Call
from mcp_compaction.home import HELD
from tests.cli.conftest import CHAT, Shell, json_lines


@pytest.mark.parametrize(
    "what", [("tax-2026",), ("tax-2026", "m1"), ("tax-2026", "--matching", "key"), ("--project",)]
)
@pytest.mark.parametrize("yes", [(), ("--yes",)])
def test_nothing_is_forgotten_where_nobody_speaks_as_the_user(
    recorded: Shell, what: tuple[str, ...], yes: tuple[str, ...]
) -> None:
    before = recorded.dump()
    ran = recorded("store forget", *what, *yes, stdin=b"yes\n")
    assert ran.code == 2
    assert ran.err.endswith("only the user can do this: run it in a terminal.\n")
    assert recorded.dump() == before


@pytest.mark.parametrize("answer", [b"", b"y\n", b"no\n"])
def test_at_a_terminal_only_yes_forgets(answer: bytes, recorded: Shell) -> None:
    ran = recorded.at_terminal()("store forget", "tax-2026", stdin=answer)
    assert ran.code == 1
    assert "Forget session tax-2026 with 81 messages?" in ran.out
    assert ran.out.endswith("nothing was forgotten\n")
    assert recorded.done("sessions").startswith("tax-2026")


def test_a_whole_project_is_forgotten_with_its_pins(recorded: Shell) -> None:
    assert "removed: 1 session, 81 messages, 1 pin" in recorded.as_user().done(
        "store forget", "--project", "--yes"
    )
    assert b"staging" not in (recorded.home / "store.db").read_bytes()


def test_a_pin_that_quotes_a_forgotten_message_is_named(recorded: Shell) -> None:
    recorded.as_user().done("pin", "Never push to main; only the staging key.", "--kind", "fact")
    said = recorded.as_user().done("store forget", "tax-2026", "m1", "--yes")
    assert "still pinned, said there: p1, p2" in said


SECRET = "The vault is behind the painting."


@pytest.fixture
def repeated(shell: Shell) -> Shell:
    """A shell whose store holds one sentence in three sessions, one of them of another project."""
    copies = [
        {"role": "user", "content": SECRET},
        {"role": "assistant", "content": "Understood, I will look there."},
        {"role": "user", "content": f"Again:\n{SECRET}"},
    ]
    shell.done("record", "--session", "tax 1", stdin=json_lines(copies))
    shell.done("record", "--session", "other-1", stdin=json_lines(copies[:1]))
    shell.done("record", "--session", "far", *far(shell), stdin=json_lines(copies))
    return shell


def far(shell: Shell) -> tuple[str, str]:
    """The options that name the other project."""
    return "--project", str(shell.folder / "shop")


def left(shell: Shell) -> int:
    """How often the sentence stands in the store's file."""
    return (shell.home / "store.db").read_bytes().count(SECRET.encode())


def test_the_same_text_in_other_messages_is_named_with_the_command(repeated: Shell) -> None:
    said = repeated.as_user().done("store forget", "tax 1", "m1", "--yes")
    shop = repeated.folder / "shop"
    assert (
        "\nthe same text also stands in m3 of tax 1 and in m1 of other-1 and in 2 messages of "
        f"another project, {shop}\n"
    ) in said
    commands = [
        line.split("mcp-compaction ")[1] for line in said.splitlines() if "them there" in line
    ]
    assert commands == [
        f"store forget --home {repeated.home} 'tax 1' m3",
        f"store forget --home {repeated.home} other-1 m1",
    ]
    for command in commands:
        ran = repeated.as_user().bare(*shlex.split(command), "--yes")
        assert (ran.code, ran.err) == (0, "")
    repeated.as_user().done("store forget", "far", "m1", "m3", "--yes", *far(repeated))
    assert left(repeated) == 0


def test_a_person_is_told_before_and_asked_after(repeated: Shell) -> None:
    ran = repeated.as_user()("store forget", "tax 1", "m1", stdin=b"yes\nyes\n")
    assert ran.code == 0
    question = ran.out.split("Type yes: ")[0]
    assert "Forget m1 of session tax 1? This cannot be undone; the same text also" in question
    assert "Forget these too? Type yes: \n" in ran.out
    assert "forgotten: m3 of session tax 1\n" in ran.out
    assert "forgotten: m1 of session other-1\n" in ran.out
    twins = json.loads(
        repeated.as_user().done("store forget", "far", "m1", "--yes", "--json", *far(repeated))
    )
    assert twins["twins"] == [{"session": "far", "ref": "m3"}]
    assert twins["twins_elsewhere"] == {}


def test_programs_get_the_list(repeated: Shell) -> None:
    said = json.loads(repeated.as_user().done("store forget", "tax 1", "m1", "--yes", "--json"))
    assert said["messages"] == 1
    assert said["twins"] == [
        {"session": "tax 1", "ref": "m3"},
        {"session": "other-1", "ref": "m1"},
    ]
    assert said["twins_elsewhere"] == {str(repeated.folder / "shop"): 2}
    assert said["more_twins"] == 0


def test_a_digest_that_quotes_a_twin_is_clean_when_the_twin_is_forgotten(shell: Shell) -> None:
    chat = [json.loads(line) for line in CHAT.splitlines()]
    chat[3:3] = [{"role": "user", "content": f"Never tell anyone: {SECRET}"}]
    chat[1:1] = [{"role": "user", "content": f"Never tell anyone: {SECRET}"}]
    shell.done("record", "--session", "tax", stdin=json_lines(chat))
    shell.done("compress", "--window-tokens", "12000")
    assert left(shell) > 2  # in a digest, too
    ran = shell.as_user()("store forget", "tax", "m2", stdin=b"yes\nyes\n")
    assert ran.code == 0
    assert left(shell) == 0


SAID = (
    ("user", "The hotel in Lisbon was 412 EUR.", 3),
    ("assistant", "Noted: hotel in Lisbon, 412 EUR.", 3),
    ("user", "Sort the receipts.", 4),
    ("user", "Add the hotel in Lisbon of autumn.", 11),
)
DATED = json_lines(
    [
        {"role": role, "content": text, "timestamp": f"2026-{month:02}-15T10:00:00Z"}
        for role, text, month in SAID
    ]
)


def test_messages_are_forgotten_by_words_and_day_after_a_list(shell: Shell) -> None:
    chat = shell.folder / "chat.jsonl"
    chat.write_bytes(DATED)
    shell.done("record", str(chat), "--session", "trip")
    wish = ("forget", "trip", "--matching", "Hotel in  lisbon", "--before", "2026-10-01")
    ran = shell.at_terminal()(*wish, stdin=b"yes\n")
    told = (
        "m1  2026-03-15 10:00  user, as the agent told it: The hotel in Lisbon was 412 EUR.\nm2  "
    )
    assert ran.out.startswith(told)
    assert "Forget m1, m2 of session trip?" in ran.out
    assert "removed: 2 messages" in ran.out
    left = shell.done("recall", "hotel", "Lisbon")
    assert "of autumn" in left
    assert "412" not in left
    assert "m3" in shell.done("recall", "receipts")


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        (("--matching", "x", "--yes"), "say what to forget"),
        (("tax-2026", "m1", "--before", "2026-10-01"), "pass SESSION alone"),
        (("tax-2026", "--matching", "no such words"), "nothing was forgotten"),
        (("tax-2026", "--before", "soon"), "is no time"),
    ],
)
def test_what_picks_no_message_forgets_none(
    wish: tuple[str, ...], said: str, recorded: Shell
) -> None:
    ran = recorded.as_user()("store forget", *wish)
    assert ran.code == 2
    assert said in ran.err
    assert recorded.done("sessions").startswith("tax-2026")


def call_of(name: str, line: str) -> dict[str, Any]:
    """A call of a shell."""
    return {"type": "tool_use", "id": name, "name": "Bash", "input": {"command": line}}


@pytest.mark.parametrize(
    ("words", "left"),
    [
        (("tax-2026", "m2"), ["c1", "c3"]),
        (("tax-2026", "--matching", "plumtree"), ["c1", "c3"]),
        (("tax-2026",), ["c3"]),
        (("--project",), []),
    ],
)
def test_what_was_held_is_forgotten_with_the_call_the_chat_and_the_project(
    shell: Shell, words: tuple[str, ...], left: list[str]
) -> None:
    calls = {"c1": "git push origin main", "c2": "git push plumtree main"}
    said: list[dict[str, Any]] = [
        {"role": "assistant", "content": [call_of(name, line)]} for name, line in calls.items()
    ]
    shell.done("record", "--session", "tax-2026", stdin=json_lines(said))
    shell.done("record", "--session", "other", stdin=json_lines([{"role": "user", "content": "x"}]))
    with closing(sqlite3.connect(shell.home / "store.db")) as store, store:
        store.execute("UPDATE session SET host_session = 's' || id")
    rule = Rule(1, "Never push.", (parse_check("deny Bash: git push"),))
    (held,) = judge(Call("Bash", {"command": "git push"}, "/p", "/p"), [rule])
    for chat, call in (("s1", "c1"), ("s1", "c2"), ("s2", "c3"), ("a chat nobody recorded", "c4")):
        note_held(shell.home, held, "claude-code", chat, call)
    with HELD.path(shell.home).open("a") as file:
        file.write('{"call": "c5"}\n{"session": "s1"}\n7\n')  # as another program may
    shell.as_user().done("store forget", *words, "--yes")
    assert [note.call for note in read_held(shell.home)] == left
