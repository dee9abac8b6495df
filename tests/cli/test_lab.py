"""The command that shows strategies side by side, in small."""

from __future__ import annotations

import json
import re
import sqlite3
from pathlib import Path

import pytest

from tests.cli.conftest import Shell
from tests.evals.handover.working import small_session


@pytest.fixture
def chat(tmp_path: Path) -> str:
    path = tmp_path / "work.jsonl"
    path.write_text("\n".join(json.dumps(message) for message in small_session(6)))
    return str(path)


def test_a_person_gets_one_table(shell: Shell, chat: str) -> None:
    ran = shell.bare("eval", "lab", chat, "--only", "ours-25", "newest-lines-10")
    assert (ran.code, ran.err) == (0, "")
    assert re.match(r"work: the first 60 %, \d+ messages, [\d,]+ tokens\n", ran.out)
    names = re.findall(r"^  (\S+-\d+) +[\d,]+ +\d+ %", ran.out, re.M)
    assert names == ["ours-10", "ours-25", "newest-lines-10"]
    assert f"lab {chat} --show ours-10" in ran.out


def test_one_view_can_be_read(shell: Shell, chat: str) -> None:
    ran = shell.bare("eval", "lab", chat, "--show", "ours-25")
    assert ran.out.startswith("ours-25, to 25 % of the window: ")
    assert "[user] Mend the limiter. Never push to main." in ran.out
    assert "[digest d1" in ran.out


def test_a_program_gets_one_document(shell: Shell, chat: str) -> None:
    found = shell.bare("eval", "lab", chat, "--only", "ours-25", "--json").json()
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
    ran = shell.bare("eval", "lab", str(folder), "--only", "ours-25")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("work: the first 60 %")
    assert f"lab '{folder}' --show ours-10" in ran.out
    assert shell.bare("eval", "lab", str(folder / "store.db")).code == 2
