"""A worktree belongs to its repository: for pins, sessions, recall, forgetting and checks."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
from contextlib import closing
from io import StringIO
from pathlib import Path

import pytest

from mcp_compaction.checks.check import parse_check
from mcp_compaction.checks.file import rules_for
from mcp_compaction.checks.judge import Rule, judge
from mcp_compaction.checks.match import Call
from mcp_compaction.cli import bite
from mcp_compaction.git_folders import branch_of, paths_of
from mcp_compaction.projects import find_folder, find_project
from mcp_compaction.settings import load_settings
from tests.cli.conftest import Shell


def git(folder: Path, *words: str) -> None:
    named = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "protocol.file.allow=always")
    told = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", "PATH": "/usr/bin:/bin"}
    command = ("git", *named, *words)
    subprocess.run(command, cwd=folder, env=told, check=True, capture_output=True)


def at(shell: Shell, project: Path) -> Shell:
    return shell.with_environ({"MCP_COMPACTION_PROJECT": str(project)})


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    place = tmp_path / "repository"
    (place / "config").mkdir(parents=True)
    (place / "config/a.yml").write_text("a: 1\n")
    git(place, "init", "-q", "-b", "main")
    git(place, "add", ".")
    git(place, "commit", "-qm", "x")
    return place


@pytest.fixture(params=["../beside", ".claude/worktrees/topic"])
def worktree(repository: Path, request: pytest.FixtureRequest) -> Path:
    place = (repository / str(request.param)).resolve()
    git(repository, "worktree", "add", "-q", "-b", "topic", str(place))
    return place


def test_a_worktree_is_its_repository(repository: Path, worktree: Path) -> None:
    home = str(repository)
    assert find_project(str(worktree)) == home
    assert find_project(None, str(worktree / "config")) == home
    assert find_project(str(worktree / "config")) == f"{home}/config"
    assert find_folder(str(worktree)) == str(worktree)
    assert paths_of(home) == [home, str(worktree)]
    assert (branch_of(str(repository)), branch_of(str(worktree / "config"))) == ("main", "topic")


def test_a_worktree_that_claude_code_has_removed_is_still_its_repositorys(repository: Path) -> None:
    gone = repository / ".claude/worktrees/topic"
    assert find_project(str(gone)) == str(repository)
    gone.mkdir(parents=True)  # a folder like any other
    assert find_project(str(gone)) == str(gone)


def test_nobody_is_believed_to_be_a_worktree_by_their_own_word(
    tmp_path: Path, repository: Path, worktree: Path
) -> None:
    stranger = tmp_path / "stranger"
    stranger.mkdir()
    (stranger / ".git").write_text((worktree / ".git").read_text())  # of another worktree
    assert find_project(str(stranger)) == str(stranger)

    kept = stranger / "kept/worktrees/x"  # which names the stranger, and is none of theirs
    kept.mkdir(parents=True)
    (kept / "gitdir").write_text(f"{stranger}/.git\n")
    (kept / "commondir").write_text(f"{repository}/.git\n")
    (stranger / ".git").write_text(f"gitdir: {kept}\n")
    assert find_project(str(stranger)) == str(stranger)

    (stranger / ".git").unlink()  # a repository that names another project as its worktree
    claimed = stranger / ".git/worktrees/x"
    claimed.mkdir(parents=True)
    (claimed / "gitdir").write_text(f"{repository}/.git\n")
    (claimed / "commondir").write_text("../..\n")
    assert paths_of(str(stranger)) == [str(stranger)]
    assert find_project(str(repository)) == str(repository)


def test_a_worktree_that_was_moved_by_hand_is_its_own_until_git_repairs_it(
    tmp_path: Path, repository: Path, worktree: Path
) -> None:
    moved = tmp_path / "moved"
    shutil.move(worktree, moved)
    assert find_project(str(moved)) == str(moved)
    git(moved, "worktree", "repair")
    assert find_project(str(moved)) == str(repository)


def test_what_was_recorded_under_the_worktrees_own_path_is_found_under_both(
    repository: Path, worktree: Path, shell: Shell
) -> None:
    here, there = (at(shell, place) for place in (repository, worktree))
    here.as_user().done("pin", "Never touch config/a.yml.")
    with closing(sqlite3.connect(shell.home / "store.db", isolation_level=None)) as store:
        for table in ("session", "pin", "passage"):  # as a version before recorded it
            store.execute(f"UPDATE {table} SET project = ?", (str(worktree),))
    here.as_user().done("pin", "Never use npm.")
    for one in (here, there):
        assert "Never touch config/a.yml" in one.done("pins")
        assert "Never use npm" in one.done("pins")
        assert "config/a.yml" in one.done("recall", "config")
        (line,) = {line for line in one.done("sessions").splitlines() if "repository" in line}
        assert line
    here.as_user().done("store forget", "--project", "--yes")
    with closing(sqlite3.connect(shell.home / "store.db")) as store:
        for table in ("session", "pin", "passage"):
            assert store.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)


@pytest.mark.parametrize("made_in", ["repository", "worktree"])
def test_a_rule_holds_in_the_repository_and_in_the_worktrees_own_copy(
    repository: Path, worktree: Path, made_in: str
) -> None:
    made = {"repository": repository, "worktree": worktree}[made_in]
    rule = Rule(1, "x", (parse_check("deny Write|Edit: config/a.yml"),), project=str(made))
    for place in (repository, worktree):
        rules = rules_for([rule], [str(place)], "")
        for held, line in (
            (True, "echo > config/a.yml"),
            (True, "cd config && rm a.yml"),
            (True, f"rm {repository}/config/a.yml {worktree}/b"),
            (True, f"rm {worktree}/config/a.yml"),
            (True, "find . -name a.yml -delete"),
            (False, "echo > config/b.yml"),
        ):
            call = Call("Bash", {"command": line}, str(place), str(place))
            assert bool(judge(call, rules)) is held, (place, line)
    assert rules_for([rule], [str(repository.parent / "other")], "") == []


def test_a_hook_in_a_worktree_holds_what_was_pinned_in_the_repository(
    repository: Path, worktree: Path, shell: Shell
) -> None:
    here = at(shell, repository).as_user()
    here.done("pin", "Never edit .env.")
    here.done("pins", "check", "p1", "--accept")
    call = {"tool_name": "Write", "tool_input": {"file_path": str(worktree / ".env")}}
    told = json.dumps({"cwd": str(worktree), "session_id": "s", "tool_use_id": "t", **call})
    out = StringIO()
    argv = ["claude-code", "PreToolUse", "--home", str(shell.home)]
    environ = {**shell.environ, "CLAUDE_PROJECT_DIR": str(worktree)}
    assert bite.run(argv, out, StringIO(told), environ) == 0
    assert json.loads(out.getvalue())["hookSpecificOutput"]["permissionDecision"] == "deny"


def test_a_worktree_that_is_not_to_be_recorded_keeps_its_repository_out_of_the_store(
    repository: Path, worktree: Path
) -> None:
    settings = load_settings({})
    assert settings.records(str(repository))
    for folder in (worktree, repository):
        quiet = settings.model_copy(update={"unrecorded": frozenset({str(folder)})})
        assert not quiet.records(find_project(str(worktree)))
