"""The demo, played by the installed script against the real server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mcp_compaction.cli.commands import demo
from mcp_compaction.demo import Figures
from tests.cli.conftest import Shell
from tests.demo.test_tell import FIGURES

pytestmark = pytest.mark.thorough

SCRIPT = Path(sys.executable).with_name("mcp-compaction")


class Played(NamedTuple):
    """A demo that was run to its end."""

    code: int
    out: str
    err: str


def play(folder: Path, *argv: str) -> Played:
    """Run the demo in a process of its own, with settings that would change its figures."""
    config = folder / "mcp-compaction"
    config.mkdir(exist_ok=True)
    (config / "config.toml").write_text('record = false\npreset = "subagent"\n')
    environ = {
        "HOME": str(folder),
        "XDG_CONFIG_HOME": str(folder),
        "PATH": f"{SCRIPT.parent}{os.pathsep}{os.environ['PATH']}",
    }
    words = [str(SCRIPT), "demo", *argv]
    ran = subprocess.run(words, capture_output=True, text=True, env=environ, check=False)
    return Played(ran.returncode, ran.stdout, ran.stderr)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Played, Path]:
    """One demo for programs, and the folder its store was kept in."""
    folder = tmp_path_factory.mktemp("demo")
    return play(folder, "--json", "--keep", str(folder / "kept")), folder / "kept"


@pytest.fixture(scope="module")
def figures(kept: tuple[Played, Path]) -> dict[str, Any]:
    """What programs are told."""
    return json.loads(kept[0].out)


def test_every_promise_holds(figures: dict[str, Any]) -> None:
    assert len(figures["promises"]) == 6
    assert all(figures["promises"].values())


def test_the_rule_is_there_and_the_detail_comes_back(figures: dict[str, Any]) -> None:
    assert figures["rule_in_window"]
    assert figures["rule_bytes"] == len(figures["rule"].encode())
    recalled = figures["recollection"]
    assert not recalled["in_window"]
    assert recalled["detail"] in recalled["passage"]
    assert (figures["provider_faults"], figures["archive_faults"]) == ([], [])


def test_a_kept_store_can_be_looked_at(kept: tuple[Played, Path], shell: Shell) -> None:
    _, home = kept
    there = shell.with_environ({"MCP_COMPACTION_PROJECT": "/home/dev/settle"})
    ran = there.bare("pins", "--home", str(home), "--session", "double-payouts")
    assert (ran.code, ran.err) == (0, "")
    assert 'Never run migrations against "prod-db-2"' in ran.out


def test_a_folder_with_a_store_is_not_played_into(kept: tuple[Played, Path], shell: Shell) -> None:
    _, home = kept
    before = (home / "store.db").read_bytes()
    ran = shell.bare("demo", "--keep", str(home))
    assert ran.code == 2
    assert ran.err.endswith("pass a new or empty folder to --keep.\n")
    assert (home / "store.db").read_bytes() == before


def test_piped_it_prints_what_the_page_shows_and_leaves_nothing_behind(tmp_path: Path) -> None:
    played = play(tmp_path)
    assert (played.code, played.err) == (0, "")
    assert "\x1b" not in played.out
    assert "starting the server" not in played.out
    assert "before [####" in played.out
    assert "all 6 things that were checked held" in played.out
    assert [path.name for path in tmp_path.iterdir()] == ["mcp-compaction"]
    page = (Path(__file__).parents[2] / "docs/compaction.md").read_text(encoding="utf-8")
    shown = page.split("shows what happened:\n\n```\n", 1)[1].split("\n```\n", 1)[0]
    assert played.out.rstrip("\n") == shown


def tells(figures: Figures, patch: pytest.MonkeyPatch) -> None:
    """Have the demo come to these figures."""

    async def played(home: Path, tell: Any) -> Figures:
        tell("summarizing m2..m41")
        return figures

    patch.setattr(demo, "play", played)


def test_a_broken_promise_gives_code_1(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    tells(FIGURES.model_copy(update={"rule_in_window": False}), monkeypatch)
    ran = shell.bare("demo")
    assert (ran.code, ran.err) == (1, "")
    assert "BROKEN PROMISE: the rule is in it byte for byte\n" in ran.out
    assert "checked held" not in ran.out
    told = shell.bare("demo", "--json")
    assert told.code == 1
    assert told.json()["promises"]["the rule is in it byte for byte"] is False
