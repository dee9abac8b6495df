"""Hosts plugged in and out at the command line, and what doctor says about them."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from mcp_compaction.hosts.hook_notes import RunNotes, note_trouble
from tests.cli.conftest import Shell

SCRIPT = Path(sys.executable).with_name("mcp-compaction")


def files_in(folder: Path) -> dict[str, bytes]:
    """What stands in the files of a folder."""
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_install_says_what_it_wrote_what_is_next_and_how_to_undo_it(shell: Shell) -> None:
    out = shell.done("install", "codex")
    assert "Codex, for all projects\n  ~/.codex/config.toml: written\n" in out
    assert "next: start Codex; it asks about new hooks" in out
    assert f"mcp-compaction doctor --home {shell.home}\n" in out
    assert f"to undo it: mcp-compaction uninstall --home {shell.home} codex\n" in out
    assert "config.toml: already so" in shell.done("install", "codex")
    assert "config.toml: removed" in shell.done("uninstall", "codex")
    assert "nothing of ours was there" in shell.done("uninstall", "codex")


def test_install_says_that_the_plugin_runs_inside_the_host(shell: Shell) -> None:
    out = shell.done("install", "claude-code")
    assert (
        "note: the plugin is code that runs inside Claude Code, and Claude Code does not ask" in out
    )
    assert "runs inside Claude Code" in shell.done("install", "claude-code", "--print")
    assert "runs inside" not in shell.done("install", "codex")


def test_a_dry_run_shows_the_difference_and_changes_nothing(shell: Shell) -> None:
    before = files_in(shell.folder)
    out = shell.done("install", "claude-code", "--dry-run")
    assert f"+++ {shell.folder}/.claude.json\n" in out
    assert f'+      "command": "{SCRIPT}"' in out
    assert out.endswith("nothing was changed\n")
    assert files_in(shell.folder) == before


@pytest.mark.parametrize("host", ["cursor", "vscode", "gemini"])
def test_lines_for_a_host_that_was_not_run_are_printed_and_say_so(host: str, shell: Shell) -> None:
    refused = shell("install", host)
    assert refused.code == 2
    assert f"mcp-compaction install --home {shell.home} {host} --print" in refused.err
    out = shell.done("install", host, "--print")
    assert ": to be pasted by hand, as https://" in out
    assert str(SCRIPT) in out
    (lines,) = json.loads(shell.done("install", host, "--print", "--json"))["files"].values()
    assert json.loads(lines)


def test_a_file_that_cannot_be_read_is_left_alone_and_the_next_step_is_told(shell: Shell) -> None:
    path = shell.folder / ".claude.json"
    path.write_text("{")
    ran = shell("install", "claude-code")
    assert ran.code == 2
    assert "cannot be read as Claude Code reads it: it ends too early" in ran.err
    assert "claude-code --print" in ran.err
    assert path.read_text() == "{"
    assert "mend the file and run again" in shell("uninstall", "claude-code").err


def test_one_project_is_set_up_alone_and_not_twice(shell: Shell) -> None:
    project = shell.folder / "my shop"
    project.mkdir()
    out = shell.done("install", "claude-code", "--project", str(project))
    assert f"uninstall --home {shell.home} claude-code --project '{project}'" in out
    assert (project / ".mcp.json").exists()
    shell.done("uninstall", "claude-code", "--project", str(project))
    assert not (project / ".mcp.json").exists()
    shell.done("install", "claude-code")
    ran = shell("install", "claude-code", "--project", str(project))
    assert (ran.code, "already set up for all projects" in ran.err) == (2, True)


@pytest.mark.parametrize("argv", [["install"], ["install", "emacs"], ["uninstall"]])
def test_a_host_that_is_not_known_is_answered_with_those_that_are(
    argv: list[str], shell: Shell
) -> None:
    ran = shell(*argv)
    assert ran.code == 2
    assert "claude-code, codex, opencode" in ran.err


def test_the_list_says_what_is_installed_where(shell: Shell) -> None:
    shell.done("install", "codex")
    lines = shell.done("install", "--list").splitlines()
    states = {line.split()[0]: line for line in lines}
    assert "the server and 9 hooks in ~/.codex/config.toml" in states["codex"]
    assert states["claude-code"].endswith("not installed")
    assert "lines to paste" in states["cursor"]


def test_doctor_is_content_before_a_hook_has_run_and_says_what_to_do(shell: Shell) -> None:
    shell.done("install", "claude-code")
    said = shell.done("doctor").splitlines()
    assert said[0] == "no problems found"
    assert said[1].startswith("note: Claude Code is not seen yet: start Claude Code anew; /mcp ")
    RunNotes(shell.environ).note("claude-code", "SessionStart")
    ran = shell("doctor")
    assert ran.code == 0
    assert re.search(r"a hook last ran \d{4}-\d\d-\d\d \d\d:\d\d \(SessionStart\)", ran.out)


def test_doctor_finds_a_program_that_is_gone_and_a_server_without_hooks(shell: Shell) -> None:
    server = {"command": "/gone/mcp-compaction"}
    (shell.folder / ".claude.json").write_text(json.dumps({"mcpServers": {"compaction": server}}))
    ran = shell("doctor")
    assert ran.code == 1
    assert "is to start /gone/mcp-compaction, which is not there; run: mcp-comp" in ran.out
    assert "has the server without its hooks" in ran.out


def test_doctor_counts_what_hooks_could_not_do(shell: Shell) -> None:
    shell.done("install", "codex")
    for _ in range(3):
        note_trouble(shell.environ, "codex", "Stop", "the store was locked")
    out = shell("doctor").out
    assert "a hook of Codex, in 30 days 3 times: the store was locked" in out
