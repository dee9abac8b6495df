"""Every sign of every language takes its yes sentences and leaves its no sentences alone."""

from __future__ import annotations

import pytest

from mcp_compaction.core.text.signs import check_sign
from mcp_compaction.lexicon.languages import Lexicon, Sign, read_heads, read_lexicon

LEXICONS = [read_lexicon(head.language) for head in read_heads()]
SIGNS = [
    pytest.param(lexicon, sign, id=f"{lexicon.meta.language} {sign.kind} {sign.name}")
    for lexicon in LEXICONS
    for sign in lexicon.sign
]


@pytest.mark.parametrize(("lexicon", "sign"), SIGNS)
def test_a_sign_takes_its_yes_sentences_and_no_sign_of_its_kind_its_no_sentences(
    lexicon: Lexicon, sign: Sign
) -> None:
    assert sign.yes, "a sign without a sentence that shows it"
    assert sign.no, "a sign without a sentence that it must leave alone"
    assert list(check_sign(lexicon, sign)) == []


@pytest.mark.parametrize("lexicon", LEXICONS, ids=lambda lexicon: lexicon.meta.language)
def test_the_signs_of_one_kind_have_names_of_their_own(lexicon: Lexicon) -> None:
    names = [(sign.kind, sign.name) for sign in lexicon.sign]
    assert sorted(names) == sorted(set(names))
