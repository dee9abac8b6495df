"""The record command takes no file of another program, and says what the file is."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Shell
from tests.foreign_files import FILES, File


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_file_of_another_program_makes_no_store(file: File, shell: Shell) -> None:
    path = shell.folder / "file"
    path.write_text(file.text, encoding="utf-8")
    ran = shell("record", str(path), "--session", "new")
    assert (ran.code, ran.out) == (2, "")
    assert f"this is {file.name}, not a list of messages" in ran.err
    assert not shell.home.exists()


def test_an_export_is_refused_and_its_messages_are_taken(recorded: Shell) -> None:
    before = recorded.dump()
    exported = recorded.done("export", "--session", "tax-2026")
    ran = recorded("record", "--session", "again", stdin=exported.encode())
    assert ran.code == 2
    assert "line 1: this is an export of mcp-compaction" in ran.err
    assert recorded.dump() == before
    messages = exported.split("\n", 1)[1]
    said = recorded.done("record", "--session", "again", stdin=messages.encode())
    assert "recorded 81 messages in the new session again" in said
