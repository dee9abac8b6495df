"""What a repository's settings may not say of us, since Claude Code hands it on as it is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mcp_compaction.checks.check import parse_check
from mcp_compaction.checks.file import write_rules
from mcp_compaction.checks.judge import Rule
from mcp_compaction.cli.console.repositories import leave_out_repository

SCRIPT = str(Path(sys.executable).with_name("mcp-compaction"))


def write_settings(folder: Path, name: str, **environ: object) -> None:
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


EVIL = '"MCP_COMPACTION_HOME": "/evil"'
HOSTILE = {
    "a byte that is no letter": b'{"x": "\xff", "env": {%s}}' % EVIL.encode(),
    "a mark at the start": b'\xef\xbb\xbf{"env": {%s}}' % EVIL.encode(),
    "a deep list": b'{"x": %s%s, "env": {%s}}' % (b"[" * 9000, b"]" * 9000, EVIL.encode()),
    "a long number": b'{"x": %s, "env": {%s}}' % (b"1" * 5000, EVIL.encode()),
    "a comment": b'{"env": {%s}, /* " */ }' % EVIL.encode(),
    "escapes": rb'{"env": {"\u004dCP_COMPACTION_HOME": "\/ev\u0069l"}}',
    "a large file": b'{"x": "%s", "env": {%s}}' % (b"x" * 2**20, EVIL.encode()),
}


@pytest.mark.parametrize("how", HOSTILE)
def test_no_way_to_write_settings_moves_the_store(tmp_path: Path, how: str) -> None:
    write_settings(tmp_path, "settings.json")
    (tmp_path / ".claude/settings.json").write_bytes(HOSTILE[how])
    environ = {"MCP_COMPACTION_HOME": "/evil", "CLAUDECODE": "1"}
    assert leave_out_repository(environ, tmp_path) == ["MCP_COMPACTION_HOME"]
    assert environ == {"CLAUDECODE": "1"}


@pytest.mark.parametrize(
    ("said", "made"), [(False, "false"), (1e3, "1000"), ("\ud800/", "\ufffd/")]
)
def test_what_a_host_makes_of_a_value_is_left_out_by_its_name(
    tmp_path: Path, said: object, made: str
) -> None:
    write_settings(tmp_path, "settings.json", MCP_COMPACTION_REDACT=said)
    environ = {"MCP_COMPACTION_REDACT": made, "CLAUDECODE": "1"}
    assert leave_out_repository(environ, tmp_path) == ["MCP_COMPACTION_REDACT"]


@pytest.mark.parametrize("quoted", ['/ev"il', "/ev\\il", "/ev\til", "/\U0001f600", "/\ud800"])
def test_a_path_is_known_by_whatever_escapes_it_is_written(tmp_path: Path, quoted: str) -> None:
    write_settings(tmp_path, "settings.json", MCP_COMPACTION_HOME=quoted)
    environ = {"MCP_COMPACTION_HOME": quoted.replace("\ud800", "\ufffd"), "CLAUDECODE": "1"}
    assert leave_out_repository(environ, tmp_path) == ["MCP_COMPACTION_HOME"]


def test_the_settings_in_the_users_home_are_the_users(tmp_path: Path) -> None:
    write_settings(tmp_path, "settings.json", MCP_COMPACTION_HOME="mine")
    environ = {"MCP_COMPACTION_HOME": "mine", "HOME": str(tmp_path), "CLAUDECODE": "1"}
    assert not leave_out_repository(environ, tmp_path)


@pytest.fixture(params=["/dev/stdin", "/proc/self/fd/0", "/dev/zero", "a pipe", "itself"])
def odd(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A repository whose settings are no plain file."""
    write_settings(tmp_path, "settings.json")
    path = tmp_path / ".claude/settings.json"
    path.unlink()
    if request.param == "a pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(path if request.param == "itself" else request.param)
    return tmp_path


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such files")
def test_settings_that_are_no_file_neither_eat_an_event_nor_hold_a_hook_up(
    odd: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    home = tmp_path_factory.mktemp("home")
    write_rules(
        home, [Rule(1, "Never push.", (parse_check("deny Bash: git push"),), scope="global")]
    )
    told: dict[str, Any] = {
        "session_id": "s",
        "cwd": str(odd),
        "tool_name": "Bash",
        "tool_use_id": "c1",
    }
    told["tool_input"] = {"command": "git push origin main"}
    environ = {"PATH": os.environ["PATH"], "HOME": str(home), "CLAUDECODE": "1"}
    command = [SCRIPT, "hook", "claude-code", "PreToolUse"]
    ran = subprocess.run(
        [*command, "--home", str(home)],
        input=json.dumps(told),
        env=environ,
        cwd=odd,
        capture_output=True,
        text=True,
        check=True,
        timeout=300,  # only a net against one that hangs
    )
    assert '"deny"' in ran.stdout


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such files")
def test_a_server_reads_its_own_input_where_settings_link_to_it(tmp_path: Path) -> None:
    write_settings(tmp_path, "settings.json")
    path = tmp_path / ".claude/settings.json"
    path.unlink()
    path.symlink_to("/dev/stdin")
    info = {"name": "x", "version": "1"}
    start = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info}
    asked = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": start}
    ran = subprocess.run(
        [SCRIPT, "serve", "--home", str(tmp_path / "store")],
        input=json.dumps(asked) + "\n",
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "CLAUDECODE": "1"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    assert '"serverInfo"' in ran.stdout
