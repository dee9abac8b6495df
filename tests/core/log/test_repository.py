"""A repository stands as git's answers say."""

from __future__ import annotations

import pytest

from mcp_compaction.core.log.ledger import ledger_of
from mcp_compaction.core.log.repository import Repository, repository_of
from tests.core.saying import ran
from tests.sessions import messages_of

COMMIT = "git commit -am 'Add app'"
SAID = "[astral ad4e24e] Add app\n 1 file changed"
REFUSED = "The user doesn't want to proceed with this tool use. The tool use was rejected."


def stands(*steps: tuple[str, str]) -> Repository:
    messages = [m for n, (line, answer) in enumerate(steps) for m in ran(str(n), line, answer)]
    return repository_of(ledger_of(messages_of(messages)).entries)


def told(*steps: tuple[str, str]) -> tuple[str, str, list[str], str]:
    one = stands(*steps)
    return (
        one.branch.name if one.branch else "",
        one.commit.id if one.commit else "",
        [place.name for place in one.merged],
        one.pushed.name if one.pushed else "",
    )


def test_a_commit_that_was_merged_and_pushed_says_where() -> None:
    one = stands(
        (COMMIT, SAID),
        ("git checkout main", "Switched to branch 'main'"),
        ("git merge astral", "Updating 9c36529..ad4e24e\nFast-forward"),
        ("git push origin main", "To github.com:a/b.git\n   9c36529..ad4e24e  main -> main"),
    )
    assert one.branch == ("main", "m4")
    assert one.commit == ("astral", "ad4e24e", "Add app", "m2")
    assert one.merged == (("main", "m6"),)
    assert one.pushed == ("origin/main", "m8")


@pytest.mark.parametrize(
    ("line", "answer", "branch"),
    [
        ("git checkout -b topic", "Switched to a new branch 'topic'", "topic"),
        ("git switch -q topic", "", "topic"),
        ("git checkout -", "Switched to branch 'topic'\nYour branch is up to date.", "topic"),
        ("git checkout main", "error: pathspec 'main' did not match\nexit code 1", "astral"),
        ("git checkout -- a.py", "", "astral"),
        ("git checkout a.py", "Updated 1 path from the index", "astral"),
        ("git switch main", REFUSED, "astral"),
        ("git status | head -3", "On branch topic\nnothing to commit", "topic"),
        ("git branch --show-current", "topic", "topic"),
        ("git rev-parse --abbrev-ref HEAD", "topic", "topic"),
        ("git branch --show-current && git log --oneline -1", "topic\n49f60d0 Add x", "topic"),
        ("git log -1 --format=%s && git branch --show-current", "Fix\ntopic", "astral"),
        ("git -C /a branch --show-current; git -C /b branch --show-current", "x\ny", "astral"),
        ("git worktree add ../x -b x", "Preparing worktree (new branch 'x')", "astral"),
        ("echo git switch main", "git switch main", "astral"),
    ],
)
def test_a_branch_is_the_one_that_git_went_to(line: str, answer: str, branch: str) -> None:
    assert told((COMMIT, SAID), (line, answer))[0] == branch


@pytest.mark.parametrize(
    ("line", "answer", "pushed"),
    [
        ("git push", "To x:a/b.git\n   9c36529..ad4e24e  astral -> astral", "astral"),
        ("git push -u origin astral", "To x\n * [new branch]      astral -> astral",
         "origin/astral"),
        ("git push origin HEAD:review", "To x\n * [new branch]  HEAD -> review", "origin/review"),
        ("git push --force", "To x\n + 1111111...ad4e24e astral -> astral (forced)", "astral"),
        ("git push", "Everything up-to-date", "astral"),
        ("git push origin other", "To x\n   9c36529..1234567  other -> other", ""),
        ("git push", " ! [rejected]        astral -> astral (fetch first)\nexit code 1", ""),
        ("git push", REFUSED, ""),
    ],
)  # fmt: skip
def test_a_push_counts_where_it_took_the_commit_along(line: str, answer: str, pushed: str) -> None:
    assert told((COMMIT, SAID), (line, answer))[3] == pushed


def test_a_line_that_does_all_at_once_is_read_in_its_order() -> None:
    line = f"{COMMIT} && git push -u origin astral && git checkout main && git merge astral"
    answer = (
        f"{SAID}\nTo x\n * [new branch] astral -> astral\nSwitched to branch 'main'\nFast-forward"
    )
    assert told((line, answer)) == ("main", "ad4e24e", ["main"], "origin/astral")


@pytest.mark.parametrize(
    "line",
    [
        "git reset HEAD~1",
        "git reset --soft 9c36529",
        "git reset --hard origin/main",
        "git rebase main",
        "git commit -qm 'More'",
    ],
)
def test_of_a_commit_that_is_no_longer_the_last_nothing_is_told(line: str) -> None:
    assert told((COMMIT, SAID), (line, ""))[1:] == ("", [], "")


def test_a_commit_of_a_line_that_cannot_be_read_is_the_last_one() -> None:
    cut = 'git add -A && git commit -m "Join paths'  # as a terminal shows a long line
    one = stands((COMMIT, SAID), (cut, "[main c686f26] Join paths\n 1 file changed"))
    assert one.commit == ("main", "c686f26", "Join paths", "m4")


def test_another_folder_has_a_branch_of_its_own() -> None:
    one = stands(
        ("git -C /w/cli switch topic", "Switched to branch 'topic'"),
        ("cd /tmp/x && git init && git commit -m 'init'", "[main (root-commit) 3f91520] init"),
        ("git -C /w/cli log -1 | head -2", "commit 1234567"),
    )
    assert one.folder == ("/tmp/x", "m3")
    assert one.branch == ("main", "m4")
    one = stands(
        (f"cd /w/cli && {COMMIT}", SAID),
        ("cd /tmp/x && git init && git commit -m 'init'", "[main (root-commit) 3f91520] init"),
        ("git -C /w/cli push", "To x\n   9c36529..ad4e24e  astral -> astral"),
    )
    assert one.folder == ("/w/cli", "m1")
    assert one.commit == ("astral", "ad4e24e", "Add app", "m2")
    assert one.pushed == ("astral", "m6")


def test_a_line_is_for_the_folder_to_which_the_host_went_back() -> None:
    scratch = "[main (root-commit) 3f91520] init\nShell cwd was reset to /w/cli"
    one = stands(
        (COMMIT, SAID),
        ("cd /tmp/x && git init && git commit -m 'init'", scratch),
        ("git push", "To x\n   9c36529..ad4e24e  astral -> astral"),
    )
    assert one.folder is None
    assert one.commit == ("astral", "ad4e24e", "Add app", "m2")
    assert one.pushed == ("astral", "m6")


@pytest.mark.parametrize(
    ("line", "answer", "left"),
    [
        ("git revert HEAD", '[main 3333333] Revert "Two"', ["One", 'Revert "Two"']),
        ("git revert 1111111", '[main 3333333] Revert "One"', ["Two", 'Revert "One"']),
        ("git revert HEAD", "error: could not revert 2222222\nexit code 1", ["One", "Two"]),
        ("git commit --amend -m Both", "[main 3333333] Both\n 2 files", ["One", "Both"]),
        ("git reset --hard HEAD~1", "HEAD is now at 1111111 One", []),
        ("git reset HEAD^", "Unstaged changes after reset:", []),
        ("git reset --hard 1111111a", "HEAD is now at 1111111 One", []),
        ("git reset --hard", "HEAD is now at 2222222 Two", ["One", "Two"]),
        ("git reset a.py", "Unstaged changes after reset:", ["One", "Two"]),
        ("git checkout -- a.py", "", ["One", "Two"]),
    ],
)
def test_a_commit_that_was_taken_back_is_told_no_more(
    line: str, answer: str, left: list[str]
) -> None:
    made = [
        ran(str(n), "git commit", f"[main {str(n) * 7}] {what}")
        for n, what in ((1, "One"), (2, "Two"))
    ]
    messages = messages_of([m for step in (*made, ran("3", line, answer)) for m in step])
    assert [one.subject for one in ledger_of(messages).commits] == left
