"""HostText is found in one pass, and what is none stays as it is."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from mcp_compaction.core.text.host_texts import (
    host_texts_in,
    without_host_text_behind,
    without_host_texts,
)
from mcp_compaction.lexicon.host_texts import known_host_texts

KINDS = known_host_texts()
SCRAPS = st.sampled_from(
    [
        *(word for kind in KINDS for word in (kind.begins, kind.ends, kind.example, "\n")),
        *("```", "~~~", "\n```\n", " ", "\t", "Fix the login.", "`", "\r\n", "é", "<", "]"),
    ]
)
ANYTHING = st.lists(SCRAPS | st.text(max_size=5), max_size=25).map("".join)
SPEECH = st.text(alphabet="abc XYZ.,!?0\n", min_size=1).filter(str.strip)
CLOSED = st.sampled_from([kind.example for kind in KINDS if kind.ends and not kind.spoken])


@given(ANYTHING)
def test_stretches_are_in_order_and_what_is_outside_of_them_is_unchanged(text: str) -> None:
    found = host_texts_in(text)
    assert all(stretch.start < stretch.end <= len(text) for stretch in found)
    assert all(one.end <= other.start for one, other in pairwise(found))
    # Around what a user typed in it, host text stands in two pieces.
    begins = (*(kind.begins for kind in KINDS), *(kind.ends for kind in KINDS if kind.spoken))
    kept, end = "", 0
    for stretch in found:
        assert text.startswith(begins, stretch.start)
        kept, end = kept + text[end : stretch.start], stretch.end
    assert without_host_texts(text) == kept + text[end:]


@given(ANYTHING)
def test_taking_host_text_out_again_changes_nothing(text: str) -> None:
    once = without_host_texts(text)
    assert without_host_texts(once) == once


@given(st.lists(st.tuples(SPEECH, CLOSED), max_size=8), SPEECH)
def test_speech_between_host_text_stays_word_for_word(
    beside: list[tuple[str, str]], last: str
) -> None:
    text = "".join(f"{said}\n{host_text}\n" for said, host_text in beside) + last
    assert without_host_texts(text) == "".join(f"{said}\n\n" for said, _ in beside) + last


def test_a_text_of_openings_that_never_close_is_read_in_one_pass() -> None:
    for kind in KINDS:
        text = f"x\n{kind.begins} and on\n" * 10_000
        assert host_texts_in(text) == ()
        run = kind.begins * 10_000
        assert bool(host_texts_in(run)) == (not kind.ends)


def test_a_result_with_very_much_behind_it_is_read_in_one_pass() -> None:
    reminder = "<system-reminder>x</system-reminder>\n"
    assert without_host_text_behind("41 passed\n" + reminder * 100_000) == "41 passed"
    assert without_host_text_behind(reminder * 100_000) == ""


def test_a_fence_inside_of_host_text_hides_nothing() -> None:
    text = "<system-reminder>\n```\nmake\n</system-reminder>\nFix it."
    assert without_host_texts(text) == "\nFix it."
