"""A call counts by its result, and a file stands as it was last left."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_compaction.core.log.effects import effects_of
from mcp_compaction.core.log.ledger import ledger_of
from tests.core.saying import call, failed, ran, used
from tests.sessions import messages_of
from tests.tables import table

Json = dict[str, Any]
REFUSED = "The user doesn't want to proceed with this tool use. The tool use was rejected."


def states(*steps: list[Json]) -> dict[str, str]:
    messages = messages_of([message for step in steps for message in step])
    return {path: state.text for path, state in ledger_of(messages).files.items()}


def write(id: str, path: str, answer: str = "ok") -> list[Json]:
    return used(id, "Write", answer, file_path=path)


def edit(id: str, path: str, answer: str = "ok") -> list[Json]:
    return used(id, "Edit", answer, file_path=path)


def test_a_file_stands_as_it_was_last_left() -> None:
    assert states(
        write("1", "a.py", "File created successfully at: a.py"),
        edit("2", "a.py"),
        write("3", "b.py"),
        ran("4", "rm b.py", ""),
        edit("5", "c.py"),
        ran("6", "git mv c.py d.py", ""),
        edit("7", "e.py"),
        ran("8", "git checkout -- e.py", ""),
        used("9", "Read", "x", file_path="f.py"),
    ) == {
        "a.py": "created",
        "b.py": "deleted",
        "c.py": "moved to d.py",
        "d.py": "written",
        "e.py": "reverted",
        "f.py": "read",
    }


def test_what_is_gone_already_is_not_deleted_again() -> None:
    steps = [write("1", "a.py"), ran("2", "rm a.py", ""), ran("3", "git rm a.py", "rm 'a.py'")]
    ledger = ledger_of(messages_of([message for step in steps for message in step]))
    assert [(one.text, one.ref) for one in ledger.files.values()] == [("deleted", "m3")]


def test_nothing_is_known_of_the_files_that_an_unreadable_line_names() -> None:
    edits = ran("3", "sed -i 's/a/'b/' a.conf", "ok")
    found = states(write("1", "a.conf"), write("2", "b.conf"), edits)
    assert found == {
        "a.conf": "unknown a line that cannot be read",
        "b.conf": "written",
    }


@pytest.mark.parametrize(
    "answer",
    [
        REFUSED,
        "[Request interrupted by user for tool use]",
        "Error: no such string",
        "(No changes)",
    ],
)
def test_what_was_not_done_changes_no_file(answer: str) -> None:
    assert states(edit("1", "a.py", answer)) == {}
    assert states([call("1", "Edit", file_path="a.py"), failed("1", "no")]) == {}


@pytest.mark.parametrize(
    ("command", "by"),
    table(__file__, "where_an_effect_cannot_be_told_the_state_is_unknown_since"),
)
def test_where_an_effect_cannot_be_told_the_state_is_unknown_since(command: str, by: str) -> None:
    found = states(write("1", "a.py"), ran("2", command, ""))
    assert found == {"a.py": f"unknown {by}"}


@pytest.mark.parametrize(
    ("command", "printed"),
    [
        ("git checkout main", "Switched to branch 'main'"),
        ("git checkout release-1.2", "Switched to branch 'release-1.2'"),
        ("git switch -c topic", "Switched to a new branch 'topic'"),
        ("git merge topic", "Updating 9c36529..ad4e24e\nFast-forward"),
        ("git pull --rebase && git push", "Already up to date."),
        ("git reset docs/", "Unstaged changes after reset:\nM\tdocs/a.md"),
        ("git reset HEAD~1", ""),
        ("git clean -n", "Would remove x"),
        ("git stash list", ""),
        ("SP=/tmp/scratch\nrm -rf $SP/cache", ""),
        ("rm -rf ${SP:-/tmp/x}/cache", ""),
        ("rm -f $TMP", ""),
        ("rm -rf /tmp/scratch `mktemp -d`/x", ""),
        ("rm -rf /tmp/scratch/cache", ""),
    ],
)
def test_what_leaves_work_alone_or_is_of_other_paths_changes_no_file(
    command: str, printed: str
) -> None:
    found = states(write("1", "/w/src/app.py"), ran("2", command, printed))
    assert found["/w/src/app.py"] == "written"


def test_what_was_stashed_and_brought_back_stands_as_before() -> None:
    both = ran("2", "git stash && make lint; git stash pop", "0 issues\nDropped refs/stash@{0}")
    assert states(write("1", "a.py"), both) == {"a.py": "written"}
    assert states(write("1", "a.py"), ran("2", "git stash", ""), ran("3", "git stash pop", "")) == {
        "a.py": "written"
    }
    stuck = ran("3", "git stash pop", "CONFLICT (content)\nexit code 1")
    assert states(write("1", "a.py"), ran("2", "git stash", ""), stuck) == {
        "a.py": "unknown git stash"
    }


def test_files_that_may_lie_in_a_folder_named_as_a_whole_are_unknown_once_it_is_gone() -> None:
    found = states(
        write("1", "cli/a.py"), write("2", "app/cli/b.py"), write("3", "client/c.py"),
        ran("4", "rm -rf /w/app/cli/", ""),
    )  # fmt: skip
    unknown = "unknown rm"
    assert found == {
        "cli/a.py": unknown,
        "app/cli/b.py": unknown,
        "client/c.py": "written",
        "/w/app/cli": "deleted",
    }


def test_a_file_is_the_same_by_a_longer_path() -> None:
    found = states(write("1", "/home/u/src/a.py"), ran("2", "cd /home/u && rm src/a.py", ""))
    assert found == {"/home/u/src/a.py": "deleted"}
    assert states(write("1", "/u/src/a.py"), ran("2", "rm src/a.py", "")) == {
        "/u/src/a.py": "deleted"
    }


def test_a_commit_is_one_that_git_confirmed() -> None:
    commit = "git commit -m 'Mend the limiter'"
    said = "[main 1a2b3c4] Mend the limiter\n 1 file changed"
    messages = messages_of([*ran("1", commit, said), *ran("2", commit, REFUSED)])
    (found,) = ledger_of(messages).commits
    assert found == ("main", "1a2b3c4", "Mend the limiter", "m2")


def test_calls_end_as_their_results_say() -> None:
    steps = [
        *ran("1", "ls", "a.py"),
        *ran("2", "ls", REFUSED),
        *ran("3", "ls", "Command timed out after 2m 0.0s"),
        *ran("4", "ls", "Waiting…"),
        *ran("5", "pytest", "1 failed\nexit code 1"),
        *ran("6", "python a.py", "Traceback (most recent call last):\nKeyError: 'x'"),
        call("7", "Bash", command="ls"),
    ]
    endings = [entry.ending for entry in ledger_of(messages_of(steps)).entries]
    assert endings == ["done", "refused", "timed out", "running", "failed", "failed", "running"]


@given(st.text(st.sampled_from("rm git mv>a.py<;&|'\"\\\n$*#()- "), max_size=60))
def test_any_text_is_read_as_a_command(text: str) -> None:
    assert all(effect.by for effect in effects_of(text))


def test_what_is_copied_into_a_folder_stands_there_under_its_own_name() -> None:
    files = ledger_of(messages_of(ran("1", "cp -v src/notes.md docs/", ""))).files
    assert [(one.path, one.word) for one in files.values()] == [("docs/notes.md", "written")]
