"""Builds a release from this checkout: what registries take and what hosts install from a file.

    python packages/build.py DIR

The same checkout gives the same files. Only hatchling is needed, which `.[dev]` brings.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "mcp_compaction"
MARKETPLACE = PACKAGE / "hosts/claude_code/marketplace"
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the first moment that a zip can name: no build has one of its own


class Release(NamedTuple):
    """The files of a release."""

    wheel: Path
    source: Path
    marketplace: Path  # a folder
    plugin: Path  # the plugin of that folder, as a zip
    bundle: Path


def build(folder: Path) -> Release:
    """Build all of it into a folder, in the place of what an earlier build left there."""
    folder.mkdir(parents=True, exist_ok=True)
    for earlier in (*folder.glob("mcp_compaction-*"), *folder.glob("mcp-compaction-*")):
        earlier.unlink()
    hatch = [str(Path(sys.executable).with_name("hatchling")), "build", "-d", str(folder.resolve())]
    subprocess.run([*hatch, "-t", "wheel", "-t", "sdist"], cwd=ROOT, check=True, stdout=sys.stderr)
    (wheel,) = folder.glob("*.whl")
    (source,) = folder.glob("*.tar.gz")
    version = wheel.name.split("-")[1]
    marketplace = _make_marketplace(folder / "marketplace", wheel)
    plugin = folder / f"mcp-compaction-plugin-{version}.zip"
    _pack(plugin, _files_of(marketplace / "mcp-compaction"))
    bundle = folder / f"mcp-compaction-{version}.mcpb"
    _pack(bundle, _files_of_bundle())
    return Release(wheel, source, marketplace, plugin, bundle)


def _make_marketplace(folder: Path, wheel: Path) -> Path:
    """The marketplace of one plugin, which has its program as a wheel of its own."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(MARKETPLACE, folder)
    told = json.loads((ROOT / ".claude-plugin/marketplace.json").read_text(encoding="utf-8"))
    told["plugins"][0]["source"] = "./mcp-compaction"
    listed = json.dumps(told, indent=2) + "\n"
    (folder / ".claude-plugin/marketplace.json").write_text(listed, encoding="utf-8")
    plugin = folder / "mcp-compaction"
    for name in ("start", ".mcp.json"):
        shutil.copy(ROOT / "packages/claude-code" / name, plugin)
    (plugin / "wheel").mkdir()
    shutil.copy(wheel, plugin / "wheel")
    return folder


def _files_of_bundle() -> Iterable[tuple[str, Path]]:
    """What Claude Desktop starts with uv: the package's source beside its manifest."""
    for path in (ROOT / "packages/mcpb/manifest.json", ROOT / "packages/mcpb/icon.png"):
        yield path.name, path
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        yield name, ROOT / name
    for name, path in _files_of(PACKAGE):
        yield f"{PACKAGE.name}/{name}", path


def _files_of(folder: Path) -> Iterable[tuple[str, Path]]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path.relative_to(folder).as_posix(), path


def _pack(packed: Path, held: Iterable[tuple[str, Path]]) -> None:
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, path in held:
            told = zipfile.ZipInfo(name, _EPOCH)
            told.compress_type = zipfile.ZIP_DEFLATED
            told.external_attr = (0o100755 if path.name == "start" else 0o100644) << 16
            archive.writestr(told, path.read_bytes())


if __name__ == "__main__":
    for path in build(Path(sys.argv[1])):
        sys.stdout.write(f"{path}\n")
