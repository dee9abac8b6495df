"""What doctor finds in Claude Code's files: what is at work there, and what stands beside us."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from mcp_compaction.home import state_folder
from mcp_compaction.hosts.claude_code import surroundings
from mcp_compaction.hosts.claude_code.surroundings import Surroundings, look_around
from mcp_compaction.hosts.hook_notes import RunNotes
from mcp_compaction.hosts.serving import ServedChat, note_chat, note_dead_server
from tests.cli.conftest import Shell
from tests.hosts.given_hosts import claude_line, write_chat

RUN, WITHOUT = "claude-code-mod", "claude-code-without-mod"

OURS = "mcp-compaction@mcp-compaction-local"


def write(path: Path, told: object) -> None:
    """Write a file as the host has it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(told), encoding="utf-8")


def look(folder: Path) -> Surroundings:
    """What is found for a user whose home is a folder, in its project."""
    return look_around({"HOME": str(folder)}, folder / "project")


def add_plugin(folder: Path, name: str, module: str, *, is_copied: bool) -> None:
    """A plugin with a module: copied by the host, or read in its marketplace's folder."""
    plugin, _, marketplace = name.partition("@")
    place = folder / "elsewhere" / marketplace
    settings: dict[str, Any] = {"enabledPlugins": {name: True}}
    if is_copied:
        root = folder / ".claude/plugins/cache" / plugin
        noted = {"version": 2, "plugins": {name: [{"installPath": str(root)}]}}
        write(folder / ".claude/plugins/installed_plugins.json", noted)
    else:
        root = place / plugin
        listed = {"name": marketplace, "plugins": [{"name": plugin, "source": f"./{plugin}"}]}
        write(place / ".claude-plugin/marketplace.json", listed)
        source = {"source": {"source": "directory", "path": str(place)}}
        settings["extraKnownMarketplaces"] = {marketplace: source}
    write(root / "hooks/hooks.json", {"modules": ["./register.js"]})
    (root / "hooks/register.js").write_text(module, encoding="utf-8")
    write(folder / ".claude/settings.json", settings)


@pytest.mark.parametrize("is_copied", [True, False])
def test_a_plugin_of_others_that_compacts_is_named(is_copied: bool, tmp_path: Path) -> None:
    module = "export const register = (on) => { on('session.compact', fold); };"
    add_plugin(tmp_path, "folder@origami", module, is_copied=is_copied)
    assert look(tmp_path).compactors == ("folder@origami",)
    add_plugin(
        tmp_path, "folder@origami", module.replace(".compact", ".start"), is_copied=is_copied
    )
    assert look(tmp_path).compactors == ()


def test_a_plugin_of_ours_from_a_marketplace_is_a_double_of_what_is_installed(shell: Shell) -> None:
    shell.done("install", "claude-code")
    settings = shell.folder / ".claude/settings.json"
    told = json.loads(settings.read_text())
    told["enabledPlugins"]["mcp-compaction@mcp-compaction"] = True
    write(settings, told)
    words = "the plugin mcp-compaction@mcp-compaction is there twice, so that two servers run"
    assert f"note: {words}" in shell("doctor").out
    assert f"note: {words}" in shell.done("install", "claude-code")
    told["enabledPlugins"]["mcp-compaction@mcp-compaction"] = False
    write(settings, told)
    assert "twice" not in shell("doctor").out


def test_a_plugin_from_a_marketplace_alone_is_told_by_doctor(shell: Shell) -> None:
    write(
        shell.folder / ".claude/settings.json", {"enabledPlugins": {"mcp-compaction@their": True}}
    )
    home, environ = shell.folder / "store", {"HOME": str(shell.folder)}
    for _ in range(2):
        note_chat(home, ServedChat("5a1c", 2**22 + 1))  # no process has that number
        note_dead_server(home, "claude-code", "5a1c", environ)
    ran = shell("doctor")
    assert ran.code == 0
    assert "the plugin mcp-compaction@their; hooks are at work: the module has not run" in ran.out
    assert "in 30 days 2 times: left to the host: the server was not there; to have it" in ran.out
    assert "type /mcp in that chat" in ran.out


def test_doctor_says_what_is_at_work_and_why(shell: Shell) -> None:
    shell.done("install", "claude-code")
    RunNotes(shell.environ).note("claude-code", "SessionStart")
    doctor = ("doctor",)
    assert "hooks are at work: the module has not run yet" in shell.done(*doctor)
    RunNotes(shell.environ).note(RUN, "a chat")
    assert "the module is at work, last 20" in shell.done(*doctor)
    write_chat(
        {"HOME": str(shell.folder)},
        [claude_line(1, "Hello.", version="2.1.286").replace(": ", ":")],
    )
    old = "hooks are at work: Claude Code 2.1.286 has no modules, which came with 2.1.287"
    assert old in shell.done(*doctor)
    write_chat(
        {"HOME": str(shell.folder)},
        [claude_line(1, "Hello.", version="2.1.325").replace(": ", ":")],
    )
    assert "the module is at work" in shell.done(*doctor)


def test_doctor_says_that_the_module_broke_after_it_had_worked(shell: Shell) -> None:
    shell.done("install", "claude-code")
    RunNotes(shell.environ).note("claude-code", "SessionStart")
    RunNotes(shell.environ).note(RUN, "a chat")
    then = (state_folder(shell.environ) / f"ran-{RUN}").stat().st_mtime
    RunNotes(shell.environ).note(WITHOUT, "Stop")
    without = state_folder(shell.environ) / f"ran-{WITHOUT}"
    os.utime(without, (then + 60, then + 60))
    broken = "hooks are at work: the module ran last 20"
    assert broken in (told := shell.done("doctor"))
    assert "but not in the turn of 20" in told
    os.utime(without, (then - 60, then - 60))  # it has run since
    assert "the module is at work, last 20" in shell.done("doctor")


def test_a_plugin_that_its_user_has_switched_off_stays_off(shell: Shell) -> None:
    shell.done("install", "claude-code")
    settings = shell.folder / ".claude/settings.json"
    settings.write_text(settings.read_text().replace(f'"{OURS}": true', f'"{OURS}": false'))
    assert "settings.json: already so" in (out := shell.done("install", "claude-code"))
    assert (
        f"note: no module runs: the plugin is off (to have it: claude plugin enable {OURS})" in out
    )
    assert "is not that of this version" not in (out := shell("doctor").out)
    assert "hooks are at work: the plugin is off" in out
    shell.done("uninstall", "claude-code")
    assert not settings.exists()


@pytest.mark.parametrize(
    "told",
    [
        {"allowManagedHooksOnly": True},
        {"pluginConfigs": {"cc-plugin-sec-default@builtin": {"allowManagedModsOnly": True}}},
    ],
)
def test_what_an_organization_forbids_is_named(
    told: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    managed = tmp_path / "managed-settings.json"
    monkeypatch.setattr(surroundings, "_MANAGED", {})
    monkeypatch.setattr(surroundings, "_MANAGED_ELSEWHERE", str(managed))
    write(tmp_path / ".claude/settings.json", {"enabledPlugins": {OURS: True}})
    assert look(tmp_path).why_no_module() == ""
    write(managed, told)
    assert str(managed) in look(tmp_path).why_no_module()
    managed.unlink()
    write(tmp_path / ".claude/settings.json", {**told, "enabledPlugins": {OURS: True}})
    assert look(tmp_path).why_no_module() == ""  # a user's own word on it says nothing
