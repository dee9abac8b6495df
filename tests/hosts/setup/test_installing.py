"""Hosts set up and cleared again: what is ours comes and goes, what is others' stays."""

from __future__ import annotations

import json
import stat
import sys
import tomllib
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_compaction.errors import InputError
from mcp_compaction.hosts.setup.edits import put_in, take_out
from mcp_compaction.hosts.setup.entries import (
    PROMPTS,
    HostSetup,
    Launch,
    Scope,
    entries_for,
    find_host,
    known_setups,
)
from mcp_compaction.hosts.setup.installing import (
    Change,
    SetupFolders,
    backup_path,
    find_installed,
    install,
    plan_install,
    plan_uninstall,
    uninstall,
    write_changes,
)
from mcp_compaction.summarizers.session_model import QUESTION
from tests.hosts.setup.test_json_text import texts

PROGRAM = str(Path(sys.executable).with_name("mcp-compaction"))
EDITED = [host.name for host in known_setups() if host.is_edited]
ODD = Launch(
    words=('/opt/our tools/it\'s "here"/mcp-compaction', "serve"),
    env={"A": "b c"},
    home="/a store",
    plugin="/a store/mcp-compaction.js",
)

CLAUDE_SETTINGS = """\
{
  "model": "opus",
  "permissions": {
    "allow": ["Bash(npm test:*)", "mcp__github"],
    "deny": []
  },
  "hooks": {
    "Stop": [
      {"hooks": [{"type": "command", "command": "say done"}]}
    ],
    "SessionStart": []
  }
}"""
CLAUDE_STATE = """\
{
  "numStartups": 41,
  "projects": {
    "/home/ann/shop": {"allowedTools": [], "history": ["a \\u00e4 b"], "mcpServers": {}}
  },
  "mcpServers": {
    "github": {
      "type": "stdio",
      "command": "gh-mcp",
      "env": {"TOKEN": "${GH}"}
    }
  },
  "userID": "c68a"
}"""
CODEX_CONFIG = """\
# my settings
model = "gpt-6"   # the big one

[mcp_servers.github]
command = "gh-mcp"

[projects."/home/ann/[shop]"]
trust_level = "trusted"
# the end"""
CODEX_HOOKS = '{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "say done"}]}]}}'
OPENCODE_CONFIG = """\
{
  // the schema helps editors
  "$schema": "https://opencode.ai/config.json",
  "permission": {"bash": "ask", /* mine */ "edit": "ask"},
  "mcp": {
    "github": {"type": "local", "command": ["gh-mcp"]}, // needed
  },
}
"""
REAL = {
    ".claude.json": CLAUDE_STATE,
    ".claude/settings.json": CLAUDE_SETTINGS,
    ".codex/config.toml": CODEX_CONFIG,
    ".codex/hooks.json": CODEX_HOOKS,
    ".config/opencode/opencode.jsonc": OPENCODE_CONFIG,
    ".config/Claude/claude_desktop_config.json": '{"mcpServers": {}}',
}


def place_at(folder: Path, **environ: str) -> SetupFolders:
    """A user whose home is a folder of the test's own."""
    project = folder / "project"
    project.mkdir(exist_ok=True)
    told = {"HOME": str(folder), "PATH": str(Path(PROGRAM).parent), **environ}
    return SetupFolders(told, project, folder / "store")


def write_real(folder: Path) -> None:
    """Give the user the files that hosts have."""
    for name, text in REAL.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())


def files_in(folder: Path) -> dict[str, bytes]:
    """What stands in the files of a folder, but for our own."""
    found = (path for path in folder.rglob("*") if path.is_file())
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in found
        if not path.is_relative_to(folder / "store")
    }


def set_up(name: str, place: SetupFolders, scope: Scope = "user") -> list[Change]:
    """Install a host, and say what was changed."""
    changes = plan_install(find_host(name), scope, place)
    install(find_host(name), scope, place, changes)
    return [change for change in changes if change.is_one]


def clear(name: str, place: SetupFolders, scope: Scope = "user") -> None:
    """Uninstall a host."""
    uninstall(find_host(name), scope, place, plan_uninstall(find_host(name), scope, place))


@pytest.mark.thorough
@pytest.mark.parametrize("scope", ["user", "project"])
@pytest.mark.parametrize("name", EDITED)
def test_installed_and_uninstalled_every_file_is_as_it_was(
    name: str, scope: Scope, tmp_path: Path
) -> None:
    if not find_host(name).files(scope):
        pytest.skip(f"{name} has no files for a project")
    write_real(tmp_path)
    place = place_at(tmp_path)
    before = files_in(tmp_path)
    changed = set_up(name, place, scope)
    assert changed
    assert set_up(name, place, scope) == []
    clear(name, place, scope)
    assert files_in(tmp_path) == before
    assert not [path for path in (tmp_path / "store").rglob("*") if path.is_file()]


@pytest.mark.thorough
@settings(max_examples=15)
@given(texts(), st.sampled_from(["claude-code", "codex", "opencode"]))
def test_any_json_is_as_it_was_after_install_and_uninstall(text: str, name: str) -> None:
    host = find_host(name).model_copy(update={"has_comments": True})
    for file in host.files("user"):
        if file.path.endswith(".toml"):
            continue
        wanted = list(entries_for(host, file.holds, ODD))
        try:
            after = put_in(host, file.holds, wanted, text, file.path)
        except InputError:
            continue
        assert put_in(host, file.holds, wanted, after, file.path) == after
        assert take_out(host, file.holds, after, file.path, text) == text


def test_edits_made_in_between_stay(tmp_path: Path) -> None:
    write_real(tmp_path)
    place = place_at(tmp_path)
    set_up("claude-code", place)
    path = tmp_path / ".claude/settings.json"
    theirs = '"Stop": [\n      {"hooks": [{"type": "command", "command": "beep"}]},'
    path.write_text(
        path.read_text().replace('"Stop": [', theirs).replace('"model": "opus"', '"model": "haiku"')
    )
    clear("claude-code", place)
    expected = CLAUDE_SETTINGS.replace('"Stop": [', theirs).replace("opus", "haiku")
    assert path.read_text() == expected


def test_a_file_that_the_host_wrote_anew_loses_only_what_is_ours(tmp_path: Path) -> None:
    write_real(tmp_path)
    place = place_at(tmp_path)
    set_up("claude-code", place)
    for name in (".claude.json", ".claude/settings.json"):
        path = tmp_path / name
        path.write_text(json.dumps(json.loads(path.read_text()), separators=(",", ":")))
    clear("claude-code", place)
    for name in (".claude.json", ".claude/settings.json"):
        assert json.loads((tmp_path / name).read_text()) == json.loads(REAL[name])


def test_what_the_user_had_allowed_before_stays_allowed(tmp_path: Path) -> None:
    path = tmp_path / ".claude/settings.json"
    path.parent.mkdir()
    text = '{"permissions": {"allow": ["mcp__compaction__context_stats"]}}'
    path.write_text(text)
    place = place_at(tmp_path)
    set_up("claude-code", place)
    assert path.read_text().count("mcp__compaction__context_stats") == 1
    clear("claude-code", place)
    assert path.read_text() == text


def test_an_older_setup_gives_way_to_this_one(tmp_path: Path) -> None:
    place = place_at(tmp_path)
    old = {"type": "command", "command": "/gone/bin/mcp-compaction pins", "timeout": 30}
    path = tmp_path / ".claude/settings.json"
    path.parent.mkdir()
    path.write_text(json.dumps({"hooks": {"SessionStart": [{"hooks": [old]}]}}))
    servers = {"mcpServers": {"compaction": {"command": "/gone/bin/mcp-compaction"}}}
    (tmp_path / ".claude.json").write_text(json.dumps(servers))
    found = find_installed(find_host("claude-code"), "user", place)
    assert found is not None
    assert (found.is_current, found.missing_program) == (False, "/gone/bin/mcp-compaction")
    set_up("claude-code", place)
    assert "/gone" not in path.read_text() + (tmp_path / ".claude.json").read_text()
    found = find_installed(find_host("claude-code"), "user", place)
    assert found is not None
    assert (found.is_current, found.missing_program) == (True, "")


@pytest.mark.parametrize("scope", ["user", "project"])
def test_claude_code_is_told_of_the_copy_of_the_plugin_and_starts_one_server(
    scope: Scope, tmp_path: Path
) -> None:
    place = place_at(tmp_path)
    set_up("claude-code", place, scope)
    files = {file.holds: file for file in find_host("claude-code").files(scope)}
    server, settings = (
        json.loads(f.find(place.environ, place.project).read_text()) for f in files.values()
    )
    ((name, told),) = settings["extraKnownMarketplaces"].items()
    copy = Path(told["source"]["path"])
    assert settings["enabledPlugins"] == {f"mcp-compaction@{name}": True}
    assert json.loads((copy / ".claude-plugin/marketplace.json").read_text())["name"] == name
    assert (copy / "mcp-compaction/hooks/register.jsx").is_file()
    assert not (copy / "mcp-compaction/.mcp.json").exists()
    environ = server["mcpServers"]["compaction"]["env"]
    assert environ["MCP_COMPACTION_VIEWS"] == str(copy / "mcp-compaction/.views")
    assert stat.S_IMODE(copy.stat().st_mode) == 0o700


@pytest.mark.thorough
def test_the_copy_of_a_plugin_becomes_that_of_this_version_while_a_server_runs(
    tmp_path: Path,
) -> None:
    place = place_at(tmp_path)
    set_up("claude-code", place)
    plugin = tmp_path / "store/installed/claude-code/all/mcp-compaction"
    (plugin / "hooks/register.jsx").write_text("// of an older version")
    (plugin / "hooks/older.js").write_text("")
    (plugin / ".views").mkdir()
    (plugin / ".views/a-chat.json").write_text("{}")
    found = find_installed(find_host("claude-code"), "user", place)
    assert found is not None
    assert not found.is_current
    changed = {change.path.name for change in set_up("claude-code", place)}
    assert changed == {"register.jsx", "older.js"}
    assert not (plugin / "hooks/older.js").exists()
    assert (plugin / ".views/a-chat.json").exists()
    clear("claude-code", place)
    assert not plugin.exists()


def test_what_claude_code_has_noted_of_the_plugin_goes_with_it(tmp_path: Path) -> None:
    write_real(tmp_path)
    place = place_at(tmp_path)
    set_up("claude-code", place)
    ours, theirs = "mcp-compaction@mcp-compaction-local", "their@other"
    state = json.loads((tmp_path / ".claude.json").read_text())
    notes: dict[str, dict[str, Any]] = {
        ".claude/plugins/known_marketplaces.json": {"other": {}, "mcp-compaction-local": {}},
        ".claude/plugins/installed_plugins.json": {"version": 2, "plugins": {theirs: [], ours: []}},
        ".claude.json": {**state, "pluginUsage": {theirs: {}, ours: {}}},
    }
    for name, told in notes.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(json.dumps(told, indent=2))
    clear("claude-code", place)
    left = [json.loads((tmp_path / name).read_text()) for name in notes]
    assert left == [
        {"other": {}},
        {"version": 2, "plugins": {theirs: []}},
        {**json.loads(CLAUDE_STATE), "pluginUsage": {theirs: {}}},
    ]


@pytest.mark.parametrize(
    ("name", "path", "text"),
    [
        ("claude-code", ".claude/settings.json", '{"hooks": {} // mine\n}'),
        ("claude-code", ".claude.json", '{"mcpServers": '),
        ("claude-code", ".claude.json", '{"mcpServers": {"compaction": {"command": "other"}}}'),
        ("claude-code", ".claude/settings.json", '{"hooks": []}'),
        ("codex", ".codex/config.toml", "model = "),
        ("codex", ".codex/config.toml", "mcp_servers = {}"),
        ("codex", ".codex/hooks.json", "\x00"),
        ("opencode", ".config/opencode/opencode.json", '{"mcp": 1}'),
    ],
)
def test_a_file_that_does_not_fit_is_refused_and_nothing_is_changed(
    name: str, path: str, text: str, tmp_path: Path
) -> None:
    (tmp_path / path).parent.mkdir(exist_ok=True, parents=True)
    (tmp_path / path).write_text(text)
    before = files_in(tmp_path)
    with pytest.raises(InputError):
        set_up(name, place_at(tmp_path))
    assert files_in(tmp_path) == before


def test_when_one_file_cannot_be_written_none_is(tmp_path: Path) -> None:
    first = Change(tmp_path / "a.json", None, "{}")
    (tmp_path / "file").write_text("")
    second = Change(tmp_path / "file" / "b.json", None, "{}")
    with pytest.raises(InputError):
        write_changes([first, second])
    assert not first.path.exists()


def test_a_file_that_was_changed_meanwhile_is_not_written(tmp_path: Path) -> None:
    place = place_at(tmp_path)
    host = find_host("claude-code")
    changes = plan_install(host, "user", place)
    (tmp_path / ".claude.json").write_text('{"theirs": 1}')
    with pytest.raises(InputError, match="changed meanwhile"):
        install(host, "user", place, changes)
    assert (tmp_path / ".claude.json").read_text() == '{"theirs": 1}'


def test_links_and_modes_stay_and_the_copy_is_for_the_user_alone(tmp_path: Path) -> None:
    write_real(tmp_path)
    kept = tmp_path / "dotfiles.json"
    kept.write_text(CLAUDE_SETTINGS)
    kept.chmod(0o640)
    link = tmp_path / ".claude/settings.json"
    link.unlink()
    link.symlink_to(kept)
    place = place_at(tmp_path)
    set_up("claude-code", place)
    assert link.is_symlink()
    assert "host_event" in kept.read_text()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o640
    copy = backup_path(place.home, "claude-code", link)
    assert copy.read_text() == CLAUDE_SETTINGS
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert stat.S_IMODE(copy.parent.stat().st_mode) == 0o700


def test_the_hooks_of_codex_read_as_those_that_users_have_trusted() -> None:
    """Codex asks every user anew for each hook whose text changes."""
    hooks = [(entry.at[1], entry.value) for entry in entries_for(CODEX, ["hooks"], ODD)]
    assert [event for event, _ in hooks] == [
        *("SessionStart", "SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse"),
        *("Stop", "PreCompact", "PostCompact"),
    ]
    common = {"session_id": "${session_id}", "transcript_path": "${transcript_path}"}
    stop: dict[str, Any] = {"type": "mcp_tool", "server": "compaction", "tool": "host_event"}
    stop |= {"input": {"event": "Stop", **common, "cwd": "${cwd}"}, "timeout": 5}
    assert dict(hooks)["Stop"] == {"hooks": [stop]}


CODEX: HostSetup = find_host("codex")


def asking_at(folder: Path) -> SetupFolders:
    """The same user, who wishes for handovers in prose."""
    return replace(place_at(folder), prompt=QUESTION)


def test_a_prompt_that_was_written_to_hosts_is_known_as_ours_for_ever() -> None:
    # Where it was reworded: its hash is added, and the former one stays.
    assert sha256(QUESTION.encode()).hexdigest() in PROMPTS


@pytest.mark.parametrize("text", ["", "a = 1", "\n[t]\nx = 1\n", "a = 1\r\n[t]\r\n"])
def test_our_compaction_prompt_comes_and_goes_with_the_wish(text: str, tmp_path: Path) -> None:
    path = tmp_path / ".codex/config.toml"
    path.parent.mkdir()
    path.write_bytes(text.encode())
    set_up("codex", asking_at(tmp_path))
    assert tomllib.loads(path.read_bytes().decode())["compact_prompt"] == QUESTION
    assert set_up("codex", asking_at(tmp_path)) == []
    set_up("codex", place_at(tmp_path))
    assert "compact_prompt" not in path.read_text()
    set_up("codex", asking_at(tmp_path))
    clear("codex", place_at(tmp_path))
    assert path.read_bytes() == text.encode()


@pytest.mark.parametrize("key", ["compact_prompt", "experimental_compact_prompt_file"])
def test_a_compaction_prompt_of_the_user_stays(key: str, tmp_path: Path) -> None:
    text = f'{key} = "{QUESTION.splitlines()[0]} Be brief."\n'
    path = tmp_path / ".codex/config.toml"
    path.parent.mkdir()
    path.write_text(text)
    set_up("codex", asking_at(tmp_path))
    assert tomllib.loads(path.read_text())[key].endswith("Be brief.")
    assert QUESTION not in path.read_text()
    (installed,) = filter(None, [find_installed(find_host("codex"), "user", asking_at(tmp_path))])
    assert (installed.prompt, installed.is_current) == ("theirs", True)
    clear("codex", asking_at(tmp_path))
    assert path.read_text() == text
