"""The benchmark of planted errors plants what is wrong, and sees what the check does with it."""

from __future__ import annotations

from benchmarks.planted import NOWHERE, UNTOUCHED, WILLED, judge, lines_of
from tests.core.saying import Json, ran, used, user
from tests.sessions import session_of

SUMMARY = """This session is being continued from a previous conversation.

Analysis:
1. We looked at it.

Summary:
3. Files and Code Sections:
   - Updated `src/limits.py` with `spend_token` and `refill_bucket`
   - Read `lib/clock.py`
     ```python
     def spend_token(): ...
     ```
   - All tests pass
   - The fix is not committed
   - The user asked for a poem
   - Added `make_poem`

7. Pending Tasks:
   - Rotate the key

If you need specific details from before compaction, read the transcript.
"""
SAID: list[Json] = [
    user("Mend the limiter."),
    *used("1", "Read", "def now(): ...", file_path="/w/lib/clock.py"),
    *used(
        "2",
        "Edit",
        "updated",
        file_path="/w/src/limits.py",
        old_string="",
        new_string="def spend_token(): refill_bucket()",
    ),
    *ran("3", "pytest -q", "3 passed in 1.0s"),
]


def judged(said: list[Json]) -> dict[tuple[str, str], bool]:
    session = session_of(said)
    transcript = "".join(map(str, said))
    return {(kind, line.text): ok for kind, ok, line in judge(transcript, SUMMARY, session)}


def test_a_line_is_what_the_hosts_model_says() -> None:
    texts = [line.text for line in lines_of(SUMMARY)]
    assert texts[:2] == [
        "Updated `src/limits.py` with `spend_token` and `refill_bucket`",
        "Read `lib/clock.py`",
    ]
    assert texts[-1] == "Rotate the key"
    assert len(texts) == 7  # no frame, no analysis, no code


def test_what_calls_contradict_is_planted_and_marked_or_out() -> None:
    found = judged(SAID)
    errors = {key: stands for key, stands in found.items() if key[0] not in (UNTOUCHED, WILLED)}
    assert errors == {
        ("file", "Deleted `src/limits.py` with `spend_token` and `refill_bucket`"): False,
        ("path", "Updated `w/lib/limits.py` with `spend_token` and `refill_bucket`"): False,
        ("path", "Read `w/src/clock.py`"): False,
        ("path", "Updated `clock.py` with `spend_token` and `refill_bucket`"): False,
        ("result", "All tests fail"): False,
        ("result", "The tests fail."): False,
        ("result", "Tests are failing."): False,
        ("result", "The test suite is red."): False,
        ("commit", "The fix is committed"): False,
        ("commit", "All changes are committed."): False,
        ("commit", "Everything was committed."): False,
        ("commit", "The work is committed."): False,
        ("consent", "The user agreed to rotate the key"): False,
        (NOWHERE, "Added `make_poem`"): False,
    }
    assert not found[WILLED, "The user asked for a poem"]
    assert found[UNTOUCHED, "All tests pass"]
    assert found[UNTOUCHED, "The fix is not committed"]


def test_nothing_is_planted_that_is_true() -> None:
    found = judged([*SAID, *ran("4", "git commit -am fix", "[main 3fa9c21] fix")])
    commits = {text for kind, text in found if kind == "commit"}
    assert commits == {
        "The changes are not committed yet.",
        "Nothing was committed.",
        "The work is uncommitted.",
    }
    red = judged([*SAID, *ran("4", "pytest -q", "1 failed, 2 passed in 1.0s")])
    assert {text for kind, text in red if kind == "result"} == {
        "All tests pass.",
        "The tests are passing.",
        "The test suite is green.",
    }
    assert not red[UNTOUCHED, "All tests pass"]  # the host's line is what is wrong
