"""Markers: doubts, next steps; told from code and quotations."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_compaction.core.text.all_languages import (
    is_pleasantry,
    marker_groups,
)
from mcp_compaction.core.text.sentences import split_sentences, spoken_sentences


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        ("Wait, that is odd.", ["interjection"]),
        ("Hmm. Ah! Hm, so.", ["interjection"]),
        ("On second thought I was wrong", ["reversal"]),
        ("Let me reconsider this", ["reversal"]),
        ("Perhaps; alternatively I'm not sure", ["hedge"]),
        ("I’m not sure about it", ["hedge"]),
        ("I am uncertain", ["hedge"]),
        ("Let me check.", ["check"]),
        ("Let me verify.", ["check"]),
        ("I double-check it: verify!", ["check"]),
        ("Hold on a moment", ["halt"]),
        ("But wait, perhaps", ["interjection", "hedge", "halt"]),
        ("Actually, no: let me verify that", ["interjection", "check", "halt"]),
        ("Everything is fine", []),
    ],
)
def test_each_group_of_doubt_counts_once(text: str, groups: list[str]) -> None:
    assert list(marker_groups(text)) == groups


@pytest.mark.parametrize(
    "code",
    [
        'raise ValueError("actually wrong")',
        "```\nawait wait()\n# perhaps check\n```",
        "```\nan open fence: hold on",
        "run `git check` and `wait`",
        "print('hmm, wait')",
        "~~~\nperhaps check\n~~~",
        "the page says “wait, hold on”, «perhaps» and 「actually」",
        "git checkout main",
        "git check-ignore -v x",
        "see check.py, check/all, check_all and check()",
        "the waiter ahead is factually awaiting",
    ],
)
def test_code_and_quotations_hold_no_doubt(code: str) -> None:
    assert not marker_groups(code)


def test_sentences_end_at_marks_and_lines() -> None:
    text = "One. Two! Three?\n\n- four\n五。六！ seven"
    assert split_sentences(text) == ("One.", "Two!", "Three?", "- four", "五。", "六！", "seven")
    assert split_sentences(" \n ") == ()


@pytest.mark.parametrize(
    "text",
    [
        "No. We stay with it.",
        "Take option v. Then stop.",
        "It takes 5 ms. Then it ends.",
        "So it is, in America. Now go.",
        "Das ist Art. Wir bleiben dabei.",
        "Así es. Luego sigue.",
        "See page 5. Then go on.",
        "(see no. 5). Then go on.",
    ],
)
def test_what_only_looks_like_an_abbreviation_ends_a_sentence(text: str) -> None:
    assert len(split_sentences(text)) == 2


def test_speech_leaves_out_code_logs_and_quoted_blocks() -> None:
    text = (
        "1. Use e.g. the staging key, i.e. ours. Then stop here.\n> quoted reply here\n"
        "```\nperhaps_code()\n```\n- [ ] the `maybe` flag stays\n2026-01-01 12:00 INFO started up\n"
        "ValueError: something bad\nfoo(bar) is a call\nno\n" + "long " * 200
    )
    assert [s.text for s in spoken_sentences(text)] == [
        "Use e.g. the staging key, i.e. ours.",
        "Then stop here.",
        "the `maybe` flag stays",
    ]
    assert not spoken_sentences("~~~\nwe went with Redis here\n~~~")
    assert spoken_sentences("it says “maybe so” there")[0].bare == "it says __________ there"
    assert spoken_sentences("the `maybe` flag stays")[0].bare == "the _______ flag stays"


@given(st.text(alphabet="aB .!?\n`'\"-1。*>", max_size=120))
def test_every_sentence_stands_where_it_says_it_does(text: str) -> None:
    for sentence in spoken_sentences(text):
        assert " ".join(text[sentence.start : sentence.end].split()) == sentence.text
        assert len(sentence.bare) == sentence.end - sentence.start


@pytest.mark.parametrize("text", ["Thanks!", "Hello there", "Vielen Dank!", "谢谢", "Merci 👍"])
def test_a_greeting_or_thanks_alone_is_a_pleasantry(text: str) -> None:
    assert is_pleasantry(text)


@pytest.mark.parametrize("text", ["Thanks, now fix the tests", "okra", ""])
def test_what_says_something_is_no_pleasantry(text: str) -> None:
    assert not is_pleasantry(text)
