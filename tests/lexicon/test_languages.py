"""Every sign of every language takes its yes sentences and leaves its no sentences alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcp_compaction.core.text.all_languages import KINDS_IN_ALL
from mcp_compaction.core.text.language import ENGLISH, count_votes, words_of
from mcp_compaction.core.text.sentences import split_sentences, spoken_sentences
from mcp_compaction.core.text.signs import Signs
from mcp_compaction.core.text.words import stem_by
from mcp_compaction.lexicon.languages import (
    Head,
    Lexicon,
    Sign,
    fill_in_all,
    read_lexicons,
    words_in_all,
)

# Of which an expression has to have one, by which its days are read.
TELLING_GROUPS = frozenset(("near", "weekday", "unit", "month", "number"))

ROOT = Path(__file__).parents[2]
every_language = pytest.mark.parametrize(
    "lexicon", read_lexicons(), ids=lambda lexicon: lexicon.meta.language
)


def takers(lexicon: Lexicon, sign: Sign, text: str) -> set[str]:
    """The signs of the same kind that take a text."""
    signs = Signs(lexicon, sign.kind)
    return {one.sign.name for said in spoken_sentences(text) for one in signs.find(said.bare)}


@every_language
def test_each_sign_takes_its_yes_sentences_and_none_of_its_kind_takes_its_no_sentences(
    lexicon: Lexicon,
) -> None:
    for sign in lexicon.sign:
        assert sign.yes, f"{sign.name}: give it a sentence that shows it"
        assert sign.no, f"{sign.name}: give it a sentence that only sounds alike"
        assert [text for text in sign.yes if sign.name not in takers(lexicon, sign, text)] == []
        for text in sign.no:
            taken = takers(lexicon, sign, text)
            # What one guard lets pass another may hold back.
            assert not (taken if sign.kind != "guard" else taken & {sign.name}), text


@every_language
def test_no_abbreviation_cuts_a_sentence(lexicon: Lexicon) -> None:
    assert lexicon.meta.uncut, "give it sentences that show its abbreviations"
    for text in lexicon.meta.uncut:
        assert split_sentences(text) == (text,)


@every_language
def test_no_sentence_is_taken_for_another_language(lexicon: Lexicon) -> None:
    own = lexicon.meta.language
    for text in (yes for sign in lexicon.sign if sign.kind != "guard" for yes in sign.yes):
        for sentence in spoken_sentences(text):
            votes = count_votes(sentence.bare)
            assert votes or own == ENGLISH, f"add a function or typical word: {text}"
            assert votes[own] == max(votes.values(), default=0), f"{votes}: {text}"


@every_language
def test_a_file_is_sound_as_a_whole(lexicon: Lexicon) -> None:
    names = [(sign.kind, sign.name) for sign in lexicon.sign]
    assert len(names) == len(set(names))
    assert not lexicon.meta.stemmer or stem_by(lexicon.meta.stemmer, "word") is not None
    for name in lexicon.parts:
        re.compile(lexicon.fill(f"{{{name}}}"))
    assert [problem for sign in lexicon.sign for problem in complaints_of(lexicon, sign)] == []


def test_what_a_pattern_may_name_stands_before_the_signs() -> None:
    lexicons = read_lexicons()
    for name in {name for one in lexicons for name in (*one.lists, *one.parts, *one.tables)}:
        known = [one for one in lexicons if one.has(name)]
        assert words_in_all(name) == {word for one in known for word in one.words(name)}
        assert fill_in_all(name) == "|".join(one.fill(f"{{{name}}}") for one in known)


def complaints_of(lexicon: Lexicon, sign: Sign) -> Iterator[str]:
    for word in sign.needs:
        if word.isascii() and words_of(word) != frozenset((word,)):
            yield f"{sign.name} needs {word!r}: write words of small letters alone"
    if sign.kind in KINDS_IN_ALL and (lexicon.guards_of(sign) or sign.beside or sign.by):
        yield f"{sign.name}: its kind is looked for in all languages at once, without guards"
    groups = (re.compile(lexicon.fill(pattern)).groupindex for pattern in sign.pattern)
    if sign.kind == "date" and any(map(TELLING_GROUPS.isdisjoint, groups)):
        yield f"{sign.name}: a date needs one of the groups {', '.join(sorted(TELLING_GROUPS))}"


def test_the_docs_name_every_key_and_every_name_that_the_engine_reads() -> None:
    docs = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    code = [file.read_text(encoding="utf-8") for file in (ROOT / "mcp_compaction").rglob("*.py")]
    calls = (
        r"(?:part_of|part_in_all|fill_in_all|words_in_all|\.words|\.part|lists\.get|tables\.get"
        r"|said\.number|said\.meaning)\([\"']([a-z_]+)[\"']"
    )
    read = {name for text in code for name in re.findall(calls, text)}
    assert len(read) > 20
    wanted = {*read, *Head.model_fields, *Sign.model_fields, *TELLING_GROUPS}
    assert not [name for name in sorted(wanted) if f"`{name}`" not in docs]
