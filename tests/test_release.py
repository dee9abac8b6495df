"""What one command builds holds all that it needs, and works without this checkout.

The packages that it needs are those of the environment of the tests: nothing is fetched.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from packages.build import PACKAGE, ROOT, Release, build
from packages.write import read_version

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    return build(tmp_path_factory.mktemp("release"))


def held_by(packed: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(packed) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def files_of_package() -> set[str]:
    files = [file for file in PACKAGE.rglob("*") if file.is_file()]
    wanted = {file.relative_to(ROOT).as_posix() for file in files if file.suffix != ".pyc"}
    assert "mcp_compaction/lexicon/secrets.toml" in wanted
    return wanted


def test_wheel_source_and_bundle_hold_every_file_of_the_package(release: Release) -> None:
    wanted = files_of_package()
    assert wanted <= held_by(release.wheel).keys()
    assert wanted <= held_by(release.bundle).keys()
    with tarfile.open(release.source) as source:
        held = {name.partition("/")[2] for name in source.getnames()}
    assert wanted <= held


def test_the_names_of_the_files_have_the_version(release: Release) -> None:
    files = (release.wheel, release.source, release.plugin, release.bundle)
    assert all(read_version() in file.name for file in files)


def test_the_zip_is_the_plugin_of_the_marketplace_with_the_wheel(release: Release) -> None:
    folder = release.marketplace / "mcp-compaction"
    files = [path for path in folder.rglob("*") if path.is_file()]
    there = {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}
    packed = held_by(release.plugin)
    assert packed == there
    assert packed[f"wheel/{release.wheel.name}"] == release.wheel.read_bytes()
    assert {"start", ".mcp.json", ".claude-plugin/plugin.json", "hooks/register.jsx"} <= set(packed)


def test_the_same_checkout_gives_the_same_files(release: Release, tmp_path: Path) -> None:
    again = build(tmp_path)
    for one, other in zip(release, again, strict=True):
        if one.is_file():
            assert hashlib.sha256(one.read_bytes()).digest() == (
                hashlib.sha256(other.read_bytes()).digest()
            ), one.name


def test_what_an_earlier_build_left_goes_and_other_files_stay(tmp_path: Path) -> None:
    for name in ("mcp_compaction-0.0.1-py3-none-any.whl", "mcp-compaction-0.0.1.mcpb", "notes.txt"):
        (tmp_path / name).write_text("earlier")
    build(tmp_path)
    assert not list(tmp_path.glob("*0.0.1*"))
    assert (tmp_path / "notes.txt").read_text() == "earlier"


@pytest.mark.parametrize("kind", ["wheel", "bundle"])
def test_in_an_empty_environment_and_home_it_compacts_without_the_checkout(
    kind: str, release: Release, tmp_path: Path
) -> None:
    own = tmp_path / "own"
    subprocess.run([sys.executable, "-I", "-m", "venv", "--without-pip", str(own)], check=True)
    (site,) = own.rglob("site-packages")
    # After its own, and its .pth files are not read: the checkout is not on the path.
    others = [path for path in sys.path if Path(path).name == "site-packages"]
    (site / "others.pth").write_text("\n".join(others))
    with zipfile.ZipFile(getattr(release, kind)) as archive:
        archive.extractall(site)
    python = next(path for path in own.rglob("python*") if path.stem == "python")
    home = tmp_path / "home"
    home.mkdir()
    environ = {"HOME": str(home), "PATH": os.defpath, "USERPROFILE": str(home)}
    start = "import sys, mcp_compaction as m; from mcp_compaction.cli.entry import run;"
    start += "print(m.__file__, file=sys.stderr); run()"
    ran = subprocess.run(
        [str(python), "-I", "-c", start, "demo"],
        cwd=home,
        env=environ,
        capture_output=True,
        text=True,
        check=True,
    )
    assert Path(ran.stderr.splitlines()[0]).is_relative_to(own)
    assert "c1" in ran.stdout
    assert "undo" in ran.stdout
