"""A command is the same command in any disguise that a line of a shell can be read through."""

import json
import os
import sys
from pathlib import Path

import pytest

from mcp_compaction.checks.check import parse_check
from mcp_compaction.checks.lines import runs_of
from mcp_compaction.checks.match import Call, MatchedPart, find_match
from mcp_compaction.git_folders import branch_of
from tests.tables import table

COMMANDS = {
    "git push --force origin main": "deny Bash: git push --force*",
    "rm -rf build": "deny Bash: rm -rf",
    "psql -h prod-db-2 -f m.sql": "deny Bash: psql *prod-db-2*",
    "npm install left-pad": "deny Bash: npm",
}

# %c: the command; %p: its program; %r: the rest of it
DISGUISES = table(__file__, "disguises")

HARMLESS = table(__file__, "harmless")


def spell(disguise: str, command: str) -> str:
    program, _, rest = command.partition(" ")
    parts = {"%c": command, "%p": program, "%r": rest, "%h": program[0], "%t": program[1:]}
    for sign, part in parts.items():
        disguise = disguise.replace(sign, part)
    return disguise


def find(check: str, line: str, folder: Path) -> MatchedPart | None:
    call = Call("Bash", {"command": line}, str(folder), str(folder))
    return find_match(parse_check(check), call)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("disguise", DISGUISES)
def test_a_command_is_known_in_a_disguise(disguise: str, command: str, tmp_path: Path) -> None:
    script = tmp_path / "s.sh"
    script.write_text(f"#!/bin/sh\nset -e\n{command}\n")
    (tmp_path / "t.sh").write_text("./s.sh\n")
    (tmp_path / "package.json").write_text(json.dumps({"scripts": {"ship": command}}))

    assert find(COMMANDS[command], spell(disguise, command), tmp_path) is not None


def test_a_byte_that_is_no_letter_hides_no_script(tmp_path: Path) -> None:
    (tmp_path / "s.sh").write_bytes(b"# \xff\ngit push origin main\n")
    assert find("deny Bash: git push main", "bash s.sh", tmp_path) is not None


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such files")
def test_a_branch_is_not_read_from_a_pipe(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    head = tmp_path / ".git/HEAD"
    os.mkfifo(head)
    ours = os.open(head, os.O_RDWR)
    try:  # with all that a reader could want, so that none waits
        os.write(ours, b"ref: refs/heads/main".ljust(8192))
        assert branch_of(str(tmp_path)) == ""
    finally:
        os.close(ours)


@pytest.mark.parametrize("command", [one for one in COMMANDS if not one.startswith("npm")])
@pytest.mark.parametrize("harmless", HARMLESS)
def test_words_of_a_command_that_is_not_run_are_let_pass(
    harmless: str, command: str, tmp_path: Path
) -> None:
    assert find(COMMANDS[command], spell(harmless, command), tmp_path) is None


PUSH = "deny Bash: git push main"


def test_scripts_that_run_each_other_are_opened_up_to_a_bound(tmp_path: Path) -> None:
    names = [f"s{number}.sh" for number in range(60)]
    for name in names:
        (tmp_path / name).write_text("".join(f"bash {one}\n" for one in names if one != name))
    assert len(runs_of("bash s0.sh; git push origin main", str(tmp_path), {})) < 20_000
    assert find(PUSH, "bash s0.sh; git push origin main", tmp_path) == (
        "git push origin main",
        True,
    )
    assert find(PUSH, "bash s0.sh", tmp_path) is None
    (tmp_path / "s59.sh").write_text("git push origin main\n")
    assert find(PUSH, "bash s0.sh", tmp_path) is not None


def test_a_script_is_judged_on_each_branch_that_it_is_run_on(tmp_path: Path) -> None:
    (tmp_path / "s.sh").write_text("git push\n")
    assert find(PUSH, "git switch topic; ./s.sh; bash s.sh", tmp_path) is None
    assert find(PUSH, "git switch topic; bash s.sh; git switch main; bash s.sh", tmp_path)


@pytest.mark.parametrize(
    ("size", "line"), [(2**17, "bash s.sh"), (2**21, "bash s.sh git push main")]
)
def test_what_a_long_script_may_run_is_asked_about(size: int, line: str, tmp_path: Path) -> None:
    (tmp_path / "s.sh").write_text("echo 12\n" * (size // 8) + "git push origin main\n")
    found = find(PUSH, line, tmp_path)
    assert found is not None
    assert not found.is_sure
    assert find("deny Bash: git push topic", line, tmp_path) is None
