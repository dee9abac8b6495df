"""The record command takes in transcripts, refuses other files, and says what each is."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Shell
from tests.foreign_files import FILES, File

REFUSED = [file for file in FILES if not file.as_lines]
READ = [file for file in FILES if file.as_lines]


@pytest.mark.parametrize("file", REFUSED, ids=lambda file: file.name)
def test_a_file_of_another_program_makes_no_store(file: File, shell: Shell) -> None:
    path = shell.folder / "file"
    path.write_text(file.text, encoding="utf-8")
    ran = shell("record", str(path), "--session", "new")
    assert (ran.code, ran.out) == (2, "")
    assert f"this is {file.name}, not a list of messages" in ran.err
    assert not shell.home.exists()


@pytest.mark.parametrize("file", READ, ids=lambda file: file.name)
def test_a_transcript_is_taken_in_as_the_agents_word(file: File, shell: Shell) -> None:
    path = shell.folder / "file"
    path.write_text(file.text, encoding="utf-8")
    said = shell.as_user().done("record", str(path), "--session", "new")
    assert "in the new session new of " in said
    assert "who said what in it is kept as the agent's word" in said
    shown = shell.done("recall", "--refs", "m1", "--session", "new")
    assert "Fix the parser." in shown
    before = shell.dump()
    again = shell.as_user().done("record", str(path), "--session", "new")
    assert "1 transcript had nothing new" in again
    assert shell.dump() == before


def test_a_transcript_on_stdin_is_refused_with_the_command_that_takes_it_in(shell: Shell) -> None:
    ran = shell("record", "--session", "new", stdin=FILES[0].text.encode())
    assert ran.code == 2
    assert "this is a Claude Code transcript" in ran.err
    assert "run: mcp-compaction import" in ran.err


def test_an_export_becomes_a_session_of_its_own(recorded: Shell) -> None:
    path = recorded.folder / "export.jsonl"
    recorded.done("store export", "--session", "tax-2026", "--output", str(path))
    elsewhere = str(recorded.folder / "elsewhere")
    said = recorded.done("import", str(path), "--project", elsewhere)
    assert "recorded 81 messages in the new session tax-2026 of " in said
    again = recorded.folder / "again.jsonl"
    recorded.done(
        *("export", "--session", "tax-2026", "--project", elsewhere, "--output", str(again))
    )
    messages = path.read_bytes().split(b"\n", 1)[1]
    assert again.read_bytes().split(b"\n", 1)[1] == messages
