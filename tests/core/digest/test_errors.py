"""What failed is told until the same call was done."""

from __future__ import annotations

import pytest

from tests.core.digest.drafting import drafted, texts
from tests.core.saying import Json, call, failed, ran, used

ERROR = "error: no wheel\nexit code 1"
NOT_SINCE = "not rerun as is"


@pytest.mark.parametrize(
    ("later", "is_told"),
    [
        ([], True),
        (ran("2", "pip install web", "ok"), False),
        (ran("2", "cd /app && pip install web", "ok"), True),
        (ran("2", "pip install --no-deps web", "ok"), True),
        (ran("2", "pip install other", "ok"), True),
    ],
)
def test_a_failed_command_is_settled_by_the_same_line_that_passes(
    later: list[Json], is_told: bool
) -> None:
    draft = drafted([*ran("1", "pip install web", ERROR), *later])
    told = f"failed, {NOT_SINCE}: pip install web: error: no wheel"
    assert texts(draft, "ERRORS") == ([told] if is_told else [])
    assert all(item.refs == ("m1", "m2") for item in draft.items("ERRORS"))


def test_what_failed_again_and_again_is_told_once_the_newest_first() -> None:
    twice = [*ran("1", "make", ERROR), *ran("2", "make", ERROR)]
    draft = drafted([*twice, *ran("3", "pytest", "1 failed\nexit code 1")])
    lines = texts(draft, "ERRORS")
    assert lines[0].startswith(f"failed, {NOT_SINCE}: pytest")
    assert lines[1] == "failed 2 times, never passed: make: error: no wheel"


def test_a_failure_tells_what_ran_last_and_a_cause_that_says_why() -> None:
    line = "cat <<'EOF' > try.py\nimport a\nEOF\ncd /app && timeout 10 python3 try.py"
    draft = drafted(ran("1", line, "<returncode>1</returncode>\nKeyError: 'a'"))
    told = f"failed, {NOT_SINCE}: timeout 10 python3 try.py: KeyError: 'a'"
    assert texts(draft, "ERRORS") == [told]
    noise = "<returncode>124</returncode>\nInfo: to debug this Error: see the guide"
    assert texts(drafted(ran("1", line, noise)), "ERRORS") == [
        f"timed out, {NOT_SINCE}: timeout 10 python3 try.py"
    ]


def test_a_search_that_found_nothing_has_not_failed_but_one_that_is_not_there_has() -> None:
    assert texts(drafted(ran("1", "grep -r rate src", "exit code 1")), "ERRORS") == []
    lacking = drafted(ran("1", "rg rate src", "sh: 1: rg: not found\nexit code 127"))
    assert len(texts(lacking, "ERRORS")) == 1


def test_a_failed_edit_is_settled_by_any_later_change_of_the_file() -> None:
    edit = [
        call("1", "Edit", file_path="src/a.py", old_string="a", new_string="b"),
        failed("1", "String to replace not found in file."),
    ]
    assert len(texts(drafted(edit), "ERRORS")) == 1
    assert texts(drafted([*edit, *used("2", "Write", "ok", file_path="src/a.py")]), "ERRORS") == []
    moved = [*edit, *ran("2", "sed -i s/a/b/ src/a.py", "")]
    assert texts(drafted(moved), "ERRORS") == []
    seen = [*edit, *used("2", "Read", "a", file_path="src/a.py")]
    assert len(texts(drafted(seen), "ERRORS")) == 1
