"""Every sign of every language takes its yes sentences and leaves its no sentences alone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mcp_compaction.core.text.dates import DATE_READERS
from mcp_compaction.core.text.lexicon_check import CheckedSign, check_head, check_lexicon
from mcp_compaction.lexicon.languages import Head, Sign, read_heads, read_lexicon

ROOT = Path(__file__).parents[2]

SIGNS: dict[tuple[str, str], list[CheckedSign]] = {}
for head in read_heads():
    for checked in check_lexicon(read_lexicon(head.language)):
        SIGNS.setdefault((head.language, checked.sign.kind), []).append(checked)


@pytest.mark.parametrize("group", SIGNS, ids=" ".join)
def test_a_sign_takes_its_yes_sentences_and_its_kind_leaves_the_no_sentences_alone(
    group: tuple[str, str],
) -> None:
    assert {one.sign.name: one.problems for one in SIGNS[group] if one.problems} == {}


@pytest.mark.parametrize("language", [head.language for head in read_heads()])
def test_a_lexicon_fits_beside_the_others(language: str) -> None:
    others = [read_lexicon(head.language) for head in read_heads()]
    assert list(check_head(read_lexicon(language), others)) == []


def test_the_docs_name_every_key_and_every_name_that_the_engine_reads() -> None:
    docs = (ROOT / "docs" / "lexicon.md").read_text(encoding="utf-8")
    code = [file.read_text(encoding="utf-8") for file in (ROOT / "mcp_compaction").rglob("*.py")]
    calls = (
        r"(?:part_of|part_in_all|fill_in_all|words_in_all|\.words|\.part|lists\.get|tables\.get"
        r"|is_in|said\.number|said\.meaning)\([\"']([a-z_]+)[\"']"
    )
    read = {name for text in code for name in re.findall(calls, text)}
    assert len(read) > 40
    wanted = {*read, *Head.model_fields, *Sign.model_fields, *DATE_READERS}
    assert not [name for name in sorted(wanted) if f"`{name}`" not in docs]
