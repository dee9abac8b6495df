"""Markers: doubts, next steps; told from code and quotations."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_compaction.core.text.all_languages import (
    marker_groups,
)
from mcp_compaction.core.text.sentences import split_sentences, spoken_sentences
from tests.tables import table


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
    table(__file__, "code_and_quotations_hold_no_doubt"),
)
def test_code_and_quotations_hold_no_doubt(code: str) -> None:
    assert not marker_groups(code)


@pytest.mark.parametrize(
    "text",
    table(__file__, "what_only_looks_like_an_abbreviation_ends_a_sentence"),
)
def test_what_only_looks_like_an_abbreviation_ends_a_sentence(text: str) -> None:
    assert len(split_sentences(text)) == 2


@given(st.text(alphabet="aB .!?\n`'\"-1。*>", max_size=120))
def test_every_sentence_stands_where_it_says_it_does(text: str) -> None:
    for sentence in spoken_sentences(text):
        assert " ".join(text[sentence.start : sentence.end].split()) == sentence.text
        assert len(sentence.bare) == sentence.end - sentence.start
