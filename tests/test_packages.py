"""What is packed for hosts is written from one place, and starts as its manifest says."""

from __future__ import annotations

import json
import struct
import tomllib
from pathlib import Path
from typing import Any

import pytest

from packages.write import MANIFESTS, PACKAGES, PLUGIN, ROOT, files, read_version


def read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


def test_every_written_file_is_as_it_would_be_written_now() -> None:
    stale = [
        str(path.relative_to(ROOT)) for path, content in files() if path.read_bytes() != content
    ]
    assert not stale, "run python packages/write.py"


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_a_manifest_has_the_version_of_the_project(path: Path) -> None:
    assert read(path)["version"] == read_version()


def test_the_icon_is_a_square_png_of_512_pixels() -> None:
    icon = (PLUGIN / ".claude-plugin/icon.png").read_bytes()
    assert icon.startswith(b"\x89PNG\r\n\x1a\n")
    assert struct.unpack(">II", icon[16:24]) == (512, 512)


def test_the_bundle_names_a_file_of_the_package_and_the_python_that_it_needs() -> None:
    manifest = read(PACKAGES / "mcpb/manifest.json")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert (ROOT / manifest["server"]["entry_point"]).is_file()
    assert manifest["compatibility"]["runtimes"]["python"] == project["requires-python"]
    assert set(manifest["server"]["mcp_config"]["args"]) & set(project["scripts"])


def test_the_codex_marketplace_names_the_plugin_where_it_is_and_all_of_it_is_there() -> None:
    (entry,) = read(ROOT / ".agents/plugins/marketplace.json")["plugins"]
    folder = ROOT / entry["source"]["path"]
    plugin = read(folder / ".codex-plugin/plugin.json")
    assert plugin["name"] == entry["name"]
    looks = plugin["interface"]
    for named in (plugin["mcpServers"], plugin["skills"], plugin["hooks"], looks["logo"]):
        assert (folder / named).exists()


def test_every_address_of_the_project_is_the_same_one() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    home = project["urls"]["Repository"]
    assert read(ROOT / "server.json")["repository"]["url"] == home
    assert (
        read(ROOT / "server.json")["name"]
        == f"io.github.{home.removeprefix('https://github.com/')}"
    )
    for path in (PACKAGES / "codex/.codex-plugin/plugin.json", PACKAGES / "mcpb/manifest.json"):
        assert read(path)["homepage"] == home
