"""A push is judged by where git itself takes it."""

import subprocess
from pathlib import Path

import pytest

from mcp_compaction.checks.check import parse_check
from mcp_compaction.checks.judge import Rule, judge
from mcp_compaction.checks.match import Call

PUSH = "deny Bash: git push main"
UPSTREAM = ("push.default upstream", "branch.topic.remote origin", "branch.topic.merge main")


def git(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@b")
    told = subprocess.run(["git", *who, *words], cwd=folder, capture_output=True, check=False)
    return told.stdout.decode()


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A repository on the branch topic, which is one commit ahead of its remote everywhere."""
    git(tmp_path, "init", "-q", "--bare", "there.git")
    git(tmp_path, "init", "-q", "-b", "main", "here")
    here = tmp_path / "here"
    git(here, "remote", "add", "origin", "../there.git")
    git(here, "commit", "-q", "--allow-empty", "-m", "1")
    git(here, "branch", "topic")
    git(here, "push", "-q", "origin", "main", "topic")
    git(here, "commit", "-q", "--allow-empty", "-m", "2")
    git(here, "checkout", "-q", "-B", "topic")
    return here


def is_held(line: str, folder: Path) -> bool:
    rules = [Rule(1, "x", (parse_check(PUSH),), project=str(folder))]
    return bool(judge(Call("Bash", {"command": line}, str(folder), str(folder)), rules))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ((), ""),
        ((), "origin :"),
        ((), "origin refs/heads/*"),
        ((), "origin refs/heads/*:refs/heads/*"),
        ((), "origin refs/heads/*:refs/heads/x/*"),
        ((), "origin refs/tags/*"),
        ((), "origin heads/main"),
        ((), "origin topic:heads/main"),
        ((), "origin refs/heads/main"),
        ((), "origin heads/topic"),
        (UPSTREAM, ""),
        (UPSTREAM, "origin"),
        (UPSTREAM, "origin topic"),
        (UPSTREAM, "origin HEAD"),
        (UPSTREAM, "origin topic:topic"),
        (("push.default tracking", *UPSTREAM[1:]), ""),
        (("push.default simple", *UPSTREAM[1:]), ""),
        (("push.default current", *UPSTREAM[1:]), ""),
        (("push.default matching",), ""),
        (("push.default nothing",), ""),
        (("remote.origin.push HEAD:main",), ""),
        (("remote.origin.push +refs/heads/topic:refs/heads/main",), "origin topic"),
        (("remote.origin.push refs/heads/*:refs/heads/x/*",), ""),
        (("remote.origin.push HEAD",), "origin"),
        (("remote.origin.mirror true",), ""),
        (("remote.fork.push HEAD:main", "branch.topic.pushRemote origin"), ""),
    ],
)
def test_a_push_is_held_where_git_would_take_it_to_that_branch(
    settings: tuple[str, ...], words: str, clone: Path
) -> None:
    for setting in settings:
        name, value = setting.split()
        git(clone, "config", name, f"refs/heads/{value}" if name.endswith("merge") else value)
    told = git(clone, "push", "--dry-run", "--porcelain", *words.split())
    quoted = " ".join(f"'{word}'" for word in words.split())
    assert is_held(f"git push {quoted}", clone) == (":refs/heads/main\t" in told), told


def test_settings_of_the_line_and_of_the_user_count_too(clone: Path) -> None:
    for setting in UPSTREAM[1:]:
        name, value = setting.split()
        git(clone, "config", name, f"refs/heads/{value}" if name.endswith("merge") else value)
    assert not is_held("git push", clone)
    assert is_held("git -c push.default=upstream push", clone)
    Path("~/.gitconfig").expanduser().write_text('[PUSH] Default = "upstream" ; why\n')
    assert is_held("git push", clone)


def test_a_push_of_a_worktree_is_judged_by_the_settings_of_its_repository(clone: Path) -> None:
    git(clone, "worktree", "add", "-q", "-b", "other", "../other")
    git(clone, "config", "remote.origin.push", "HEAD:main")
    assert is_held("git push", clone.parent / "other")


@pytest.mark.parametrize(
    "line",
    [
        "git submodule foreach 'git push origin main'",
        "git -C . submodule foreach --recursive git push origin main",
        "git rebase --exec 'git push origin main' HEAD~1",
        "git rebase --exec='git push origin main' HEAD~1",
        "git rebase -x'git push origin main' HEAD~1",
        "git bisect run git push origin main",
    ],
)
def test_a_push_that_git_runs_for_another_command_is_held(line: str, tmp_path: Path) -> None:
    assert is_held(line, tmp_path)
    assert not is_held(line.replace("main", "topic"), tmp_path)
