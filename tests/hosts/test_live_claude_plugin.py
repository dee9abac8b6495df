"""The plugin in the real Claude Code: it is loaded, asks nothing, and goes without a trace."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path

import pytest

from tests.hosts.live import (
    PROGRAM,
    ClaudeCode,
    ask_doctor,
    install,
    needs_hosts,
    pin_for_project,
)
from tests.hosts.scripted_model import ScriptedModel, Step, serve_model
from tests.test_packaging import MARKETPLACE, PLUGIN, ROOT

pytestmark = needs_hosts

RULE = 'Never push to "main" without a review — not even once.'
PIN = Step(tool="pin_constraint", arguments={"text": RULE})
HABIT = "Always run the linter before you commit."
OURS = "mcp-compaction@mcp-compaction-local"
REFUSED = "haven't granted"
SETTINGS = '{\n  "model": "claude-opus-5-5",\n  "permissions": {"allow": ["Bash(ls:*)"]}\n}'


def written(text: str) -> str:
    """A text as a request in JSON holds it."""
    return json.dumps(text, ensure_ascii=False)[1:-1]


@pytest.mark.parametrize("place", [ROOT, MARKETPLACE, PLUGIN], ids=["root", "ours", "plugin"])
def test_the_plugin_passes_the_strict_validation_of_its_host(place: Path, tmp_path: Path) -> None:
    host = ClaudeCode(tmp_path, ScriptedModel())
    assert "Validation passed" in host.manage_plugins("validate", "--strict", str(place))


CALLS = [
    PIN,
    Step(tool="context_stats"),
    Step(tool="recall_archived", arguments={"query": "review"}),
    Step(tool="compress_context", arguments={"reason": "a try", "dry_run": True}),
]


def try_all_four(host: ClaudeCode, plugin: str, server: str) -> None:
    """Call the four main tools, also in a subagent: nothing is asked, and nothing fails."""
    wish = {"description": "try", "prompt": "Try all four.", "subagent_type": "general-purpose"}
    ask = Step(tool="Agent", arguments={**wish, "run_in_background": False})
    host.model.add(*CALLS, ask, *CALLS, Step("tried"), Step("done"))
    host.run(RULE)
    assert f"hooks module {plugin} loaded" in host.log.read_text("utf-8")
    greeting = next(one for one in host.said if one.get("subtype") == "init")
    assert [one["name"] for one in greeting["mcp_servers"]] == [server]
    assert plugin in [one["source"] for one in greeting["plugins"]]
    assert REFUSED not in json.dumps(host.said)
    told = [json.loads(request)["messages"][-1] for request in host.model.requests]
    assert not [one for one in told if '"is_error": true' in json.dumps(one)]
    assert len(host.model.requests) == 11
    listed = host.manage_plugins("list")
    assert plugin in listed
    assert "✔ enabled" in listed


def test_after_install_the_module_runs_and_the_four_tools_ask_nothing_even_in_a_subagent(
    tmp_path: Path,
) -> None:
    with serve_model(ScriptedModel()) as model:
        try_all_four(ClaudeCode(tmp_path, model), OURS, "compaction")


def test_the_plugin_from_its_repository_needs_no_install_and_asks_nothing_either(
    tmp_path: Path,
) -> None:
    with serve_model(ScriptedModel()) as model:
        host = ClaudeCode(tmp_path, model, is_installed=False)
        host.manage_plugins("marketplace", "add", str(ROOT))
        host.manage_plugins("install", "mcp-compaction@mcp-compaction")
        server = "plugin:mcp-compaction:compaction"
        try_all_four(host, "mcp-compaction@mcp-compaction", server)
        _, told = ask_doctor(host.environ, host.project)
        (state,) = [one["state"] for one in told["hosts"]]
        assert state.startswith("the plugin mcp-compaction@mcp-compaction; the module is at work")


def test_uninstalled_nothing_of_ours_is_left_in_the_files_of_the_host(tmp_path: Path) -> None:
    settings = tmp_path / "home/.claude/settings.json"
    settings.parent.mkdir(parents=True)
    settings.write_text(SETTINGS, encoding="utf-8")
    with serve_model(ScriptedModel()) as model:
        host = ClaudeCode(tmp_path, model)
        host.run("Hello.")
        assert OURS in settings.read_text("utf-8")
        command = [PROGRAM, "uninstall", "claude-code"]
        subprocess.run(command, env=host.environ, cwd=host.project, check=True, capture_output=True)
    assert settings.read_text("utf-8") == SETTINGS
    kept = [tmp_path / "home/.claude.json", *(tmp_path / "home/.claude/plugins").glob("*.json")]
    assert kept[1:]
    assert not [path for path in kept if "mcp-compaction" in path.read_text("utf-8")]
    assert OURS not in host.manage_plugins("list")
    assert not list((tmp_path / "home").rglob("register.jsx"))


READS = [Step(tool="shell", arguments={"command": f"seq {n} 900"}) for n in range(8)]


def test_rules_survive_compact_once_and_no_hook_shows_them_again(tmp_path: Path) -> None:
    with serve_model(ScriptedModel(PIN, *READS, Step("read"))) as model:
        host = ClaudeCode(tmp_path, model)
        host.project.mkdir()
        asyncio.run(pin_for_project(host.project, tmp_path / "home", HABIT))
        host.run(RULE, "/compact", "Go on.", "And on.")
        *earlier, before, after, last = model.requests
        assert "We talked." not in after + last  # which the host's own summary would say
        assert [one.count(written(f"constraint, by user: {RULE}")) for one in (after, last)] == [
            1,
            1,
        ]
        shown = written(f"constraint, by user: {HABIT}")
        assert {one.count(shown) for one in (*earlier, before, after, last)} == {1}
        sizes = [len(json.dumps(json.loads(one)["messages"])) for one in (before, after)]
        assert sizes[1] < sizes[0] / 2
        _, told = ask_doctor(host.environ, host.project)
        assert "the module is at work" in told["hosts"][0]["state"]


def test_where_the_module_does_not_load_hooks_put_the_rule_back_and_doctor_says_so(
    tmp_path: Path,
) -> None:
    with serve_model(ScriptedModel(PIN, *READS, Step("read"))) as model:
        host = ClaudeCode(tmp_path, model, is_installed=False)
        host.project.mkdir()
        install("claude-code", host.environ, host.project)
        (module,) = (tmp_path / "home").rglob("register.jsx")
        module.write_text("export const register = (on) => {{{", encoding="utf-8")
        host.run(RULE, "/compact", "Go on.")
        assert f"hooks module {OURS} failed to load" in host.log.read_text("utf-8")
        assert "We talked." in model.requests[-1]
        assert model.requests[-1].count(written(f"constraint, by user: {RULE}")) == 1
        _, told = ask_doctor(host.environ, host.project)
        assert "hooks are at work: the module has not run yet" in told["hosts"][0]["state"]
        assert "is not that of this version" in told["problems"][0]


def test_a_variable_that_nobody_knows_is_told_in_the_chat_and_the_server_stays(
    tmp_path: Path,
) -> None:
    settings = tmp_path / "home/.claude/settings.json"
    settings.parent.mkdir(parents=True)
    settings.write_text('{"env": {"MCP_COMPACTION_NOBODY": "1"}}', encoding="utf-8")
    with serve_model(ScriptedModel()) as model:
        for _ in range(2):
            model.add(Step(tool="context_stats"), Step("told"))
            ClaudeCode(tmp_path, model).run("How full is it?")
            assert "MCP_COMPACTION_NOBODY is no setting: remove it." in model.requests[-1]
