"""Commands that are printed, typed as they stand in another folder, by a shell that is bare."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from itertools import takewhile
from pathlib import Path
from typing import cast

import pytest

from mcp_compaction.cli.console.invocation import CommandModule, parser_of
from mcp_compaction.cli.main import COMMANDS, FORMER, find_command
from mcp_compaction.hosts.setup.entries import known_setups
from tests.cli.conftest import Shell

SCRIPT = Path(sys.executable).with_name("mcp-compaction")
ROOT = Path(__file__).parents[2]
BARE_PATH = os.pathsep.join(("/usr/bin", "/bin"))


@pytest.fixture
def stranger(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """A shell in a folder of its own that would not find the program by its name."""
    elsewhere = shell.folder / "else where"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    return shell.with_environ({"PATH": BARE_PATH})


def typed(line: str, shell: Shell, path: str = BARE_PATH) -> subprocess.CompletedProcess[str]:
    """A line as a POSIX shell runs it, in the working directory."""
    environ = {**shell.environ, "PATH": path}
    words = ["/bin/sh", "-c", line]
    return subprocess.run(words, capture_output=True, text=True, env=environ, check=False)


def is_understood(words: list[str]) -> None:
    """Fail unless the program takes these words."""
    name, rest = find_command(words)
    parser = parser_of(name, cast(CommandModule, import_module(COMMANDS[name].module)))
    parser.parse_args(list(takewhile(lambda word: word not in ("#", "<", ">"), rest)))


def lines_with(program: str, text: str) -> Iterator[list[str]]:
    """What is typed after the program's name in the indented lines of a text."""
    for line in text.splitlines():
        if line.startswith(f"  {program} "):
            yield shlex.split(re.split(r" {2,}", line.strip())[0])[1:]


def check_entry(entry: str, shell: Shell) -> None:
    """Fail unless the JSON entry for a host starts this program."""
    server = json.loads(entry)["mcpServers"]["compaction"]
    words = shlex.join([server["command"], *server.get("args", []), "--version"])
    assert typed(words, shell).stdout.startswith("mcp-compaction ")


def test_the_commands_of_the_overview_work(stranger: Shell) -> None:
    out = stranger.at_terminal().bare("--help").out
    assert typed(f"{SCRIPT} --version", stranger).returncode == 0
    found = list(lines_with(str(SCRIPT), out))
    typed_first = ["demo", "install", "install"]
    assert [words[0] for words in found] == typed_first
    for words in found:
        is_understood(words)
    (entry,) = re.findall(r"^  others: (.+)$", out, re.M)
    check_entry(entry, stranger)
    assert "uvx" not in out


@pytest.mark.parametrize("name", COMMANDS)
def test_the_examples_of_every_help_begin_with_what_runs(name: str, stranger: Shell) -> None:
    out = stranger.bare(*name.split(), "--help").out
    assert out.startswith(f"usage: {SCRIPT} {name}")
    assert f"\nexamples:\n  {SCRIPT} {name}" in out


@pytest.mark.thorough
def test_the_commands_at_the_end_of_the_demo_work(stranger: Shell) -> None:
    played = typed(f"{SCRIPT} demo --keep kept", stranger)
    assert (played.returncode, played.stderr) == (0, "")
    end = played.stdout.split("to go on:\n")[1]
    show, *others = lines_with(str(SCRIPT), end)
    assert [words[0] for words in others] == ["eval", "install", "doctor"]
    os.chdir(stranger.folder)
    shown = typed(shlex.join([str(SCRIPT), *show]), stranger)
    assert (shown.returncode, shown.stderr) == (0, "")
    for words in others:
        is_understood(words)


def test_the_next_step_of_an_error_carries_where_it_was_asked(stranger: Shell) -> None:
    said = stranger.bare("stats", "--home", "new", "--project", "shop", "--session", "a b").err
    line = said.split("first run: ")[1].replace("FILE", "-")
    os.chdir(stranger.folder)
    environ = {**stranger.environ, "PATH": BARE_PATH}
    ran = subprocess.run(
        ["/bin/sh", "-c", line],
        input='{"role":"user","content":"Hello"}',
        capture_output=True,
        text=True,
        env=environ,
        check=False,
    )
    assert "in the new session a b" in ran.stdout
    assert (stranger.folder / "else where" / "new" / "store.db").exists()


README = (ROOT / "README.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| [^|]+ \| `mcp-compaction (install .+?)`", README, re.M)
PAGES = [README, *(page.read_text(encoding="utf-8") for page in sorted(ROOT.glob("docs/*.md")))]
BLOCK_LINES = sorted(
    {
        line
        for page in PAGES
        for line in re.findall(r"^mcp-compaction (.+)$", page.replace("\\\n", ""), re.M)
    }
)


@pytest.mark.parametrize("row", ROWS)
def test_the_rows_of_the_readme_set_a_host_up(row: str, stranger: Shell) -> None:
    ran = stranger.bare(*shlex.split(row), "--dry-run")
    assert (ran.code, ran.err) == (0, "")
    assert str(SCRIPT) in ran.out


def test_the_readme_has_a_row_for_each_host_whose_files_are_edited() -> None:
    edited = [host.name for host in known_setups() if host.is_edited]
    assert {row.split()[1] for row in ROWS} == {*edited, "cursor", "gemini"}


@pytest.mark.parametrize("line", BLOCK_LINES)
def test_the_command_lines_of_the_documents_are_understood(line: str) -> None:
    is_understood(shlex.split(line, comments=True))


INLINE = sorted(
    {
        line.replace("\n", " ")
        for page in PAGES
        for line in re.findall(r"`mcp-compaction ([a-z][^`]*)`", page)
    }
)


@pytest.mark.parametrize("line", INLINE)
def test_the_commands_within_sentences_are_understood(line: str) -> None:
    words = shlex.split(line)
    if words[0] == "hook":  # a host runs it, nobody types it
        return
    name, rest = find_command(words)
    if rest:
        is_understood(words)
    assert name in COMMANDS
    assert words[0] not in FORMER


def test_the_readme_says_what_works_before_a_release() -> None:
    assert "`uvx --from PATH mcp-compaction`" in README
    assert re.search(r"once a release is out,\s`uvx mcp-compaction` will do", README)
    assert README.count("uvx mcp-compaction") == 1
