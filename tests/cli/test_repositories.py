"""What a repository's settings may not say of us, since Claude Code hands it on as it is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mcp_compaction.cli.console.repositories import leave_out_repository


def write_settings(folder: Path, name: str, **environ: str) -> None:
    (folder / ".claude").mkdir(parents=True, exist_ok=True)
    (folder / ".claude" / name).write_text(json.dumps({"env": environ}), encoding="utf-8")


@pytest.mark.parametrize("name", ["settings.json", "settings.local.json"])
def test_a_repository_names_neither_the_store_nor_a_home(tmp_path: Path, name: str) -> None:
    given = {"MCP_COMPACTION_HOME": "evil", "XDG_DATA_HOME": "evil", "HOME": str(tmp_path)}
    write_settings(tmp_path, name, **given, EDITOR="vi")
    environ = {**given, "EDITOR": "vi", "CLAUDE_PROJECT_DIR": str(tmp_path)}
    assert sorted(leave_out_repository(environ, tmp_path / "src")) == sorted(given)
    assert environ.pop("HOME") != str(tmp_path)
    assert environ == {"EDITOR": "vi", "CLAUDE_PROJECT_DIR": str(tmp_path)}


def test_what_the_user_has_set_stays(tmp_path: Path) -> None:
    write_settings(tmp_path, "settings.json", MCP_COMPACTION_HOME="evil")
    own = {"MCP_COMPACTION_HOME": "mine", "HOME": "/home/ann", "CLAUDECODE": "1"}
    environ = dict(own)
    assert not leave_out_repository(environ, tmp_path)
    assert environ == own
    at_terminal = {"MCP_COMPACTION_HOME": "evil"}
    assert not leave_out_repository(at_terminal, tmp_path)


def test_the_settings_in_the_users_home_are_the_users(tmp_path: Path) -> None:
    write_settings(tmp_path, "settings.json", MCP_COMPACTION_HOME="mine")
    environ = {"MCP_COMPACTION_HOME": "mine", "HOME": str(tmp_path), "CLAUDECODE": "1"}
    assert not leave_out_repository(environ, tmp_path)


@pytest.mark.parametrize("text", ["", "[", "[]", '{"env": 3}'])
def test_settings_that_cannot_be_read_say_nothing(tmp_path: Path, text: str) -> None:
    write_settings(tmp_path, "settings.json")
    (tmp_path / ".claude/settings.json").write_text(text, encoding="utf-8")
    assert not leave_out_repository({"CLAUDECODE": "1"}, tmp_path)
