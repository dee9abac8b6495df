"""Every sign of every language takes its yes sentences and leaves its no sentences alone."""

from __future__ import annotations

import pytest

from mcp_compaction.core.text.lexicon_check import CheckedSign, check_lexicon
from mcp_compaction.lexicon.languages import read_heads, read_lexicon

CHECKED = [
    pytest.param(checked, id=f"{head.language} {checked.sign.kind} {checked.sign.name}")
    for head in read_heads()
    for checked in check_lexicon(read_lexicon(head.language))
]


@pytest.mark.parametrize("checked", CHECKED)
def test_a_sign_takes_its_yes_sentences_and_its_kind_leaves_the_no_sentences_alone(
    checked: CheckedSign,
) -> None:
    assert list(checked.problems) == []
