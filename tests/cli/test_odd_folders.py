"""Projects whose path is not UTF-8 are recorded, listed, pinned, recalled and forgotten."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cli.conftest import Shell

HELLO = b'{"role":"user","content":"hello from an odd folder"}\n'


@pytest.fixture
def odd(shell: Shell) -> Path:
    """A folder with a byte in its name that is no UTF-8."""
    folder = os.fsencode(shell.folder) + b"/caf\xe9"
    try:
        os.mkdir(folder)  # noqa: PTH102  # a path of bytes
    except OSError:
        pytest.skip("this file system takes no such name")
    return Path(os.fsdecode(folder))


@pytest.fixture
def recorded_there(shell: Shell, odd: Path) -> Shell:
    """A shell with a session and a pin in that folder."""
    there = shell.with_environ({"MCP_COMPACTION_PROJECT": str(odd)})
    there.done("record", "--session", "s", stdin=HELLO)
    there.as_user().done("pin", "Only on Fridays.", "--scope", "project")
    return there


def test_a_session_of_an_odd_folder_is_found_by_every_command(recorded_there: Shell) -> None:
    assert "1 message" in recorded_there.done("sessions")
    assert "hello from" in recorded_there.done("recall", "odd folder")
    assert "hello from" in recorded_there.done("recall", "odd folder", "--scope", "project")
    assert "Only on Fridays." in recorded_there.done("pins")
    assert "m1" in recorded_there.done("show")
    assert recorded_there.done("stats")
    assert recorded_there.done("doctor")


def test_an_odd_folder_can_be_typed_as_it_is_shown(recorded_there: Shell, odd: Path) -> None:
    shown = f"{odd.parent}/caf\\xe9"
    elsewhere = recorded_there.with_environ({"MCP_COMPACTION_PROJECT": "/else"})
    for typed in (shown, str(odd)):
        assert "hello from" in elsewhere.done("recall", "odd", "--project", typed)
    none = elsewhere.done("pins", "--project", f"{odd}/deeper")
    assert f"{shown}/deeper" in none
