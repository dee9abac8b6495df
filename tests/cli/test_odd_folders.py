"""Projects whose path is not UTF-8 are recorded, listed, pinned, recalled and forgotten."""

from __future__ import annotations

import json
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
    assert recorded_there.done("doctor", "--no-server")


def test_an_odd_folder_is_shown_readably(recorded_there: Shell, odd: Path) -> None:
    shown = f"{odd.parent}/caf\\xe9"
    header = json.loads(recorded_there.done("export").splitlines()[0])
    assert header["session"]["project"] == shown
    (listed,) = json.loads(recorded_there.done("sessions", "--all", "--json"))
    assert listed["project"] == shown
    assert shown in recorded_there.done("sessions", "--all")


def test_an_odd_folder_can_be_typed_as_it_is_shown(recorded_there: Shell, odd: Path) -> None:
    shown = f"{odd.parent}/caf\\xe9"
    elsewhere = recorded_there.with_environ({"MCP_COMPACTION_PROJECT": "/else"})
    for typed in (shown, str(odd)):
        assert "hello from" in elsewhere.done("recall", "odd", "--project", typed)
    none = elsewhere.done("pins", "--project", f"{odd}/deeper")
    assert f"{shown}/deeper" in none


def test_an_odd_working_directory_is_a_project(
    shell: Shell, odd: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(odd)
    there = shell.with_environ({"MCP_COMPACTION_PROJECT": ""})
    there.done("record", "--session", "s", stdin=HELLO)
    assert "1 message" in there.done("sessions")
    assert "hello from" in there.done("recall", "odd")


def test_a_hook_in_an_odd_folder_brings_its_pins(recorded_there: Shell, odd: Path) -> None:
    hook = {"session_id": "x", "hook_event_name": "SessionStart", "source": "compact", "cwd": "@"}
    given = json.dumps(hook).encode().replace(b"@", os.fsencode(odd))
    there = recorded_there.with_environ({"MCP_COMPACTION_PROJECT": ""})
    assert "Only on Fridays." in there.done("pins", stdin=given)


def test_an_odd_project_is_forgotten(recorded_there: Shell, odd: Path) -> None:
    recorded_there.as_user().done("forget", "--project", str(odd), "--yes")
    assert "1 message" not in recorded_there.done("sessions")


def test_recording_is_off_where_the_settings_name_an_odd_folder(shell: Shell, odd: Path) -> None:
    config = shell.folder / "config" / "mcp-compaction"
    config.mkdir(parents=True)
    (config / "config.toml").write_text(f"[projects.'{odd.parent}/caf\\xe9']\nrecord = false\n")
    ran = shell("record", "--session", "s", "--project", str(odd), stdin=HELLO)
    assert ran.code == 2
    assert "caf\\xe9" in ran.err


def test_a_project_that_no_folder_can_be_is_refused_with_the_next_step(shell: Shell) -> None:
    ran = shell("sessions", "--project", f"/{'a' * 5_000}")
    assert ran.code == 2
    assert "no folder is called" in ran.err
    assert ran.err.endswith("pass --project PATH.\n")
