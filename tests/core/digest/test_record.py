"""A line that calls contradict stays, and is marked with what the log shows."""

from __future__ import annotations

import pytest

from mcp_compaction.core.compaction.receipt import notes_of_check
from mcp_compaction.core.digest.check.draft import Source, Stripped, check_draft
from mcp_compaction.core.digest.parse import parse_digest
from mcp_compaction.core.digest.render import render_item
from mcp_compaction.core.tokens import estimate
from mcp_compaction.model import Item, SectionName, SummaryRequest
from tests.core.saying import Json, chatter, ran, used, user
from tests.sessions import messages_of

BEGUN: list[Json] = [user("Mend the limits in src/limits.py, and drop src/old.py.")]
EDIT = used(
    "e", "Edit", "updated", file_path="/w/src/limits.py", old_string="a", new_string="refill"
)
GREEN = ran("g", "pytest -q tests/test_limits.py", "12 passed in 3.1s")
RED = ran("r", "pytest -q tests/test_limits.py", "1 failed, 11 passed in 3.2s\nexit code 1")
COMMIT = ran("c", "git commit -am limits", "[fix 3fa9c21] limits")
NO_TESTS = [  # each only names some
    *ran("n1", "git add tests/test_limits.py && git commit -m 'Add tests for it'", "[fix 1] Add"),
    *ran("n2", "git checkout -b mend-tests", "Switched to a new branch 'mend-tests'"),
    *ran("n3", "gh api pulls/1/comments -f body='The tests are mended'", "{}"),
    *ran("n4", "cat .claude-test/log.txt", "begun"),
    *ran("n5", "go vet ./e2e_test/...", ""),
]
PUSH = ran("p", "git push -u origin fix", "* [new branch] fix -> fix")
GONE = [*used("x", "Read", "1 x", file_path="/w/src/old.py"), *ran("d", "rm /w/src/old.py", "")]
LEAVES = used("l", "Read", "1 def spend_token(): ...", file_path="/w/src/bucket.py")


def shown(said: list[Json], line: str, section: SectionName = "DONE") -> str:
    messages = messages_of([*BEGUN, *said])
    request = SummaryRequest(first=1, last=len(messages), messages=messages, max_tokens=300)
    return Source(request, ()).record.against(section, Item(text=line))


@pytest.mark.parametrize(
    ("said", "line", "log"),
    [
        ([*EDIT, *COMMIT], "The fix is not committed yet", "committed as 3fa9c21, m5"),
        ([*EDIT, *COMMIT], "The changes are uncommitted", "committed as 3fa9c21, m5"),
        ([*EDIT, *COMMIT], "Die Änderung ist nicht committet", "committed as 3fa9c21, m5"),
        ([*EDIT, *COMMIT], "改动未提交", "committed as 3fa9c21, m5"),
        ([*EDIT, *COMMIT, *PUSH], "The branch was never pushed", "pushed, m7"),
        ([*COMMIT, *EDIT], "All changes are committed", "/w/src/limits.py edited after, m4"),
        ([*GREEN, *RED], "All tests pass", "tests failed, m5"),
        ([*RED, *GREEN], "The limits tests are failing", "tests passed, m5"),
        (GREEN, "Die Tests sind rot", "tests passed, m3"),
        (GREEN, "Los tests fallan", "tests passed, m3"),
        (GREEN, "测试失败", "tests passed, m3"),
        ([*GREEN, *NO_TESTS], "The tests fail", "tests passed, m3"),
        (EDIT, "Deleted `src/limits.py`", "edited, m2"),
        (EDIT, "`src/limits.py` was removed", "edited, m2"),
        (EDIT, "src/limits.py wurde gelöscht", "edited, m2"),
        (EDIT, "已删除 src/limits.py", "edited, m2"),
        (EDIT, "src/limits.py was left unchanged", "edited, m2"),
        (GONE, "Updated src/old.py", "deleted, m4"),
        (LEAVES, "**src/bucket.py** (modified)", "only read, m2"),
        ([*EDIT, *LEAVES], "`src/limits.py`: holds `spend_token()`", "in /w/src/bucket.py, m5"),
        ([*EDIT, *LEAVES], "`lib/limits.py` was edited", "/w/src/limits.py, m2"),
    ],
)
def test_what_calls_contradict_is_told_with_where_they_show_it(
    said: list[Json], line: str, log: str
) -> None:
    assert shown(said, line) == f"log: {log}"


@pytest.mark.parametrize(
    ("said", "line"),
    [
        ([*EDIT, *COMMIT], "The fix was committed as 3fa9c21"),
        ([*COMMIT, *EDIT], "The newest edit is not committed"),
        ([*COMMIT, *EDIT], "The first fix was committed as 3fa9c21"),
        ([*RED, *GREEN], "The tests failed at first, and pass now"),
        ([*GREEN, *RED], "The limits tests are failing"),
        (EDIT, "Edited src/limits.py, and removed `refill` from it"),
        (EDIT, "src/limits.py: removed the cache"),
        (GONE, "Deleted src/old.py"),
        ([*LEAVES, *used("t", "Task", "done", prompt="edit it")], "Modified src/bucket.py"),
        ([*EDIT, *LEAVES], "`src/bucket.py`: holds `spend_token()`"),
        (RED, "Do not push while the tests fail"),
        ([*COMMIT, *EDIT], 'Committed with the message "limits"'),
        (GREEN, "`git diff` of the latest commit fails"),
    ],
)
def test_what_calls_bear_out_or_do_not_tell_is_not_marked(said: list[Json], line: str) -> None:
    assert shown(said, line) == ""


def is_shown(said: list[Json], line: str, section: SectionName = "DONE") -> bool:
    messages = messages_of([*BEGUN, *said])
    request = SummaryRequest(first=1, last=len(messages), messages=messages, max_tokens=300)
    return Source(request, ()).record.shows(section, Item(text=line))


@pytest.mark.parametrize(
    "said",
    [
        used("1", "Read", "1 x", file_path="/w/src/commit.py"),
        used("1", "Grep", "src/log.py", pattern="commit"),
        used("1", "TaskCreate", "made", subject="Commit the fix"),
        used(
            "1", "Task", "It is small.", description="Look at it", prompt="Tell how a commit runs"
        ),
        ran("1", "cat .git/hooks/commit-msg", "#!/bin/sh"),
        ran("1", "git log --oneline -- commit.py", ""),
    ],
)
def test_what_only_names_a_deed_does_not_show_it(said: list[Json]) -> None:
    assert not is_shown([*EDIT, *said], "The fix is committed.", "STATE")
    assert is_shown([*EDIT, *said, *COMMIT], "The fix is committed.", "STATE")


CACHE = used(
    "k", "Edit", "updated", file_path="/w/src/bucket.py", old_string="import cache", new_string=""
)


@pytest.mark.parametrize(
    "line",
    [
        "Edited `src/limits.py` (lines 366-367)",  # lines are no names
        "`src/limits.py:14` has `refill`",
        "Added a wait of 30min to src/limits.py",
        "Removed `cache` from the bucket",
        "Changed src/committed.go beside it",  # a path claims nothing
    ],
)
def test_a_line_whose_names_calls_hold_needs_no_more(line: str) -> None:
    other = used("o", "Edit", "updated", file_path="src/committed.go", old_string="a")
    assert is_shown([*EDIT, *CACHE, *other], line)
    assert not is_shown(EDIT, "Edited `src/spend.py` (lines 366-367)")


def test_a_contradicted_line_stays_with_its_mark_and_the_receipt_counts_it() -> None:
    messages = messages_of([*BEGUN, *EDIT, *COMMIT, *chatter(6)])
    request = SummaryRequest(first=1, last=len(messages), messages=messages, max_tokens=300)
    line = "- The fix in src/limits.py is not committed"
    judged = check_draft(parse_digest(f"DONE\n{line}", "agent"), request, estimate)
    assert isinstance(judged, Stripped)
    (item,) = judged.draft.items("DONE")
    marked = f"{line} [agent says] [log: committed as 3fa9c21, m5]"
    assert render_item(item) == marked
    assert notes_of_check(judged) == (
        "1 line of the draft told what calls contradict: marked with what the log shows",
    )
    # Copied into the next draft, the mark is no word of the agent.
    copied = parse_digest(f"DONE\n{marked}", "agent").items("DONE")
    assert [one.text for one in copied] == [line[2:]]
    forged = parse_digest("DONE\n- All done [log: tests passed, m9]", "agent").items("DONE")
    assert [one.text for one in forged] == ["All done"]
