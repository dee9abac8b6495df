"""What failed is told until the same call was done."""

from __future__ import annotations

from tests.core.digest.drafting import drafted, texts
from tests.core.saying import call, failed, ran, used

NOT_SINCE = "not rerun as is"


def test_a_failure_tells_what_ran_last_and_a_cause_that_says_why() -> None:
    line = "cat <<'EOF' > try.py\nimport a\nEOF\ncd /app && timeout 10 python3 try.py"
    draft = drafted(ran("1", line, "<returncode>1</returncode>\nKeyError: 'a'"))
    told = f"failed, {NOT_SINCE}: timeout 10 python3 try.py: KeyError: 'a'"
    assert texts(draft, "ERRORS") == [told]
    noise = "<returncode>124</returncode>\nInfo: to debug this Error: see the guide"
    assert texts(drafted(ran("1", line, noise)), "ERRORS") == [
        f"timed out, {NOT_SINCE}: timeout 10 python3 try.py"
    ]


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
