"""The command of this installation, and texts whose commands are made to work."""

from __future__ import annotations

import shlex
import sys
from importlib import import_module
from pathlib import Path
from typing import cast

import pytest

from mcp_compaction.cli.console.invocation import CommandModule, parser_of
from mcp_compaction.cli.main import COMMANDS
from mcp_compaction.program import (
    TAKEN_BY,
    complete,
    host_entry,
    installed_command,
    lasting_command,
    typed_command,
)

SCRIPT = Path(sys.executable).with_name("mcp-compaction")
ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("path", [None, "", "/nowhere"])
def test_off_the_path_the_whole_path_is_typed(path: str | None) -> None:
    assert shlex.split(typed_command(path)) == [str(SCRIPT)]


def test_another_installation_on_the_path_is_not_taken_for_this_one(tmp_path: Path) -> None:
    other = tmp_path / "mcp-compaction"
    other.write_text("#!/bin/sh\n")
    other.chmod(0o755)
    assert shlex.split(typed_command(str(tmp_path))) == [str(SCRIPT)]


def test_what_uvx_runs_from_its_cache_is_named_by_its_source(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "prefix", "/home/someone/.cache/uv/archive-v0/Zx81")
    assert lasting_command() == ("uvx", "--from", str(ROOT), "mcp-compaction")
    assert host_entry() == {
        "mcpServers": {
            "compaction": {"command": "uvx", "args": ["--from", str(ROOT), "mcp-compaction"]}
        }
    }
    assert typed_command(str(SCRIPT.parent)).startswith("uvx --from ")
    assert installed_command() == (str(SCRIPT),)


OPTIONS = {"--home": "/a b", "--project": "/p", "--session": "tax 1"}


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            "Ask them to run: mcp-compaction unpin p3",
            "Ask them to run: X unpin --home '/a b' --project /p --session 'tax 1' p3",
        ),
        (
            "run: mcp-compaction doctor --fix; or not",
            "run: X doctor --home '/a b' --project /p --fix; or not",
        ),
        ("see: mcp-compaction compress --help", "see: X compress --help"),
        ("More: mcp-compaction --help", "More: X --help"),
        (
            "end the mcp-compaction process that hangs.",
            "end the mcp-compaction process that hangs.",
        ),
        ("in: mcp-compaction: no", "in: mcp-compaction: no"),
    ],
)
def test_a_command_after_a_colon_is_made_to_work(said: str, told: str) -> None:
    assert complete(said, "X", OPTIONS) == told


@pytest.mark.parametrize(
    ("verb", "option"),
    [(verb, option) for option, verbs in TAKEN_BY.items() for verb in sorted(verbs)],
)
def test_every_option_that_is_added_is_one_the_command_takes(verb: str, option: str) -> None:
    parser = parser_of(verb, cast(CommandModule, import_module(COMMANDS[verb].module)))
    assert option in parser.format_help()
