"""The command that shows strategies side by side, in small."""

from __future__ import annotations

import json
import re
import sqlite3
from pathlib import Path

import pytest

from mcp_compaction.cli.commands import lab as command
from tests.cli.conftest import Shell
from tests.evals.handover.working import small_session


@pytest.fixture
def chat(tmp_path: Path) -> str:
    path = tmp_path / "work.jsonl"
    path.write_text("\n".join(json.dumps(message) for message in small_session(6)))
    return str(path)


def test_its_help_teaches_and_gives_examples(shell: Shell) -> None:
    ran = shell.bare("lab", "--help")
    assert (ran.code, ran.err) == (0, "")
    assert "side by side" in ran.out
    for example in command.EXAMPLES:
        assert f"  mcp-compaction {example}\n" in ran.out + "\n"


def test_a_person_gets_one_table(shell: Shell, chat: str) -> None:
    ran = shell.bare("lab", chat, "--only", "ours-25", "newest-lines-10")
    assert (ran.code, ran.err) == (0, "")
    assert re.match(r"work: the first 60 %, \d+ messages, [\d,]+ tokens\n", ran.out)
    names = re.findall(r"^  (\S+-\d+) +[\d,]+ +\d+ %", ran.out, re.M)
    assert names == ["ours-10", "ours-25", "newest-lines-10"]
    assert f"lab {chat} --show ours-10" in ran.out


def test_one_view_can_be_read(shell: Shell, chat: str) -> None:
    ran = shell.bare("lab", chat, "--show", "ours-25")
    assert ran.out.startswith("ours-25, to 25 % of the window: ")
    assert "[user] Mend the limiter. Never push to main." in ran.out
    assert "[digest d1" in ran.out


def test_a_program_gets_one_document(shell: Shell, chat: str) -> None:
    found = shell.bare("lab", chat, "--only", "ours-25", "--json").json()
    assert (found["session"], found["source"]) == ("work", "plain messages")
    assert [one["name"] for one in found["strategies"]] == ["ours-25"]


def test_in_a_folder_a_file_of_another_program_is_passed_over(shell: Shell, chat: str) -> None:
    folder = Path(chat).parent / "my chats"
    folder.mkdir()
    Path(chat).rename(folder / "work.jsonl")
    connection = sqlite3.connect(folder / "store.db")
    connection.execute("CREATE TABLE session (id)")
    connection.close()
    (folder / "newer.jsonl").write_text("no message")
    ran = shell.bare("lab", str(folder), "--only", "ours-25")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("work: the first 60 %")
    assert f"lab '{folder}' --show ours-10" in ran.out
    assert shell.bare("lab", str(folder / "store.db")).code == 2


def test_a_short_session_brings_no_advice_that_cannot_be_followed(shell: Shell) -> None:
    path = shell.folder / "short.jsonl"
    path.write_text('{"role":"user","content":"Hello"}')
    ran = shell.bare("lab", str(path), "--only", "ours")
    assert "ours: refusal: not compressed: " in ran.out
    assert "force" not in ran.out


def test_an_empty_name_is_no_folder(shell: Shell) -> None:
    ran = shell.bare("lab", "")
    assert ran.code == 2
    assert "'' is no host and no file; name one of claude-code" in ran.err


def test_an_unknown_strategy_is_refused_with_those_there_are(shell: Shell, chat: str) -> None:
    ran = shell.bare("lab", chat, "--show", "best")
    assert ran.code == 2
    assert (
        "there is no strategy 'best'; pass one of these: ours, ours-25, ours-10, archive, force"
        in ran.err
    )
