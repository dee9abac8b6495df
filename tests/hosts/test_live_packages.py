"""What is packed for hosts passes the checks of the hosts themselves."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from packages.build import Release, build
from packages.write import OPENCODE, PACKAGES, PLUGIN, ROOT
from tests.hosts.live import ClaudeCode, binary_of, needs_hosts
from tests.hosts.scripted_model import ScriptedModel, Step, serve_model

pytestmark = needs_hosts


def said_by(host: str, folder: Path, *words: str) -> str:
    """What a host's program says in an empty home folder."""
    environ = {"HOME": str(folder), "PATH": os.environ["PATH"]}
    ran = subprocess.run(
        [binary_of(host), *words],
        cwd=folder,
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout + ran.stderr


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    return build(tmp_path_factory.mktemp("release"))


@pytest.mark.parametrize("kind", ["zip", "marketplace"])
def test_the_plugin_of_a_release_compacts_from_its_file(
    kind: str, release: Release, tmp_path: Path
) -> None:
    rule = "Never push without a review."
    reads = [Step(tool="shell", arguments={"command": f"seq {n} 900"}) for n in range(8)]
    pin = Step(tool="pin_constraint", arguments={"text": rule})
    with serve_model(ScriptedModel(pin, *reads, Step("read"))) as model:
        host = ClaudeCode(tmp_path, model, is_installed=False)
        if kind == "zip":
            host.plugin_dir = release.plugin
        else:
            host.manage_plugins("validate", "--strict", str(release.marketplace))
            host.manage_plugins("marketplace", "add", str(release.marketplace))
            host.manage_plugins("install", "mcp-compaction@mcp-compaction")
        host.run(rule, "/compact", "Go on.")
    *_, before, after = model.requests
    assert f"constraint, by user: {rule}" in after
    assert "We talked." not in after  # which the host's own summary would say
    assert len(after) < len(before)


def test_the_claude_code_plugin_passes_the_checks_of_the_directory(tmp_path: Path) -> None:
    host = ClaudeCode(tmp_path, ScriptedModel())
    words = ("validate", "--strict", "--profile", "directory", str(PLUGIN))
    assert "Validation passed" in host.manage_plugins(*words)


def test_the_codex_plugin_is_installed_from_this_repository_and_brings_the_server(
    tmp_path: Path,
) -> None:
    said_by("codex", tmp_path, "plugin", "marketplace", "add", str(ROOT))
    said_by("codex", tmp_path, "plugin", "add", "mcp-compaction@mcp-compaction")
    assert "installed, enabled" in said_by("codex", tmp_path, "plugin", "list")
    assert "mcp-compaction" in said_by("codex", tmp_path, "mcp", "list")


def test_the_gemini_extension_is_valid(tmp_path: Path) -> None:
    said = said_by("gemini", tmp_path, "extensions", "validate", str(PACKAGES / "gemini"))
    assert "successfully validated" in said


def test_the_opencode_package_holds_the_plugin_and_no_more(tmp_path: Path) -> None:
    packed = subprocess.run(
        ["npm", "pack", "--silent", "--pack-destination", str(tmp_path), str(OPENCODE)],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
    )
    listed = subprocess.run(
        ["tar", "-tzf", str(tmp_path / packed.stdout.strip())],
        check=True,
        capture_output=True,
        text=True,
    )
    names = sorted(listed.stdout.split())
    assert names == ["package/README.md", "package/package.json", "package/plugin.js"]
