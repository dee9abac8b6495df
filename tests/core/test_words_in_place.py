"""Words torn out of their place are not the user's rule; whole ones are, in whatever language."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from mcp_compaction.core.log.spoken_rules import saying_of
from mcp_compaction.core.text.words import one_line
from tests.core.saying import user
from tests.sessions import messages_of

_DATA: dict[str, list[dict[str, Any]]] = tomllib.loads(
    (Path(__file__).parent / "words_in_place.toml").read_text(encoding="utf-8")
)
TURNED, RULES = _DATA["turned"], _DATA["rule"]
_SIGN = re.compile(r"^\s*(?:[^\w\s]+|\(?\w{1,2}[.)])\s+")
_STOP = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])")
_CLAUSE = re.compile(r"[,;:，：、|]\s*")


def pieces_of(text: str) -> set[str]:
    """Every paragraph, line, item, sentence and clause of a text, and every run of sentences."""
    paragraphs = text.split("\n\n")
    lines = [line for line in text.split("\n") if line.strip()]
    items = [_SIGN.sub("", line) for line in lines]
    by_line = [[part for part in _STOP.split(line) if part.strip()] for line in items]
    sentences = [part for line in by_line for part in line]
    clauses = [part for sentence in sentences for part in _CLAUSE.split(sentence)]
    runs = [" ".join(line[n : n + 2]) for line in by_line for n in range(len(line) - 1)]
    found = {piece.strip() for piece in (*paragraphs, *lines, *items, *sentences, *clauses, *runs)}
    found |= {piece.rstrip(".!。！") for piece in found}
    return {piece for piece in found if piece and _letters(piece) != _letters(text)}


def _letters(text: str) -> str:
    return "".join(text.split()).rstrip(".!。！")


def is_users(words: str, text: str) -> bool:
    saying = saying_of(words, messages_of([user(text)]))
    return saying is not None and saying.how == "said"


def test_the_sets_are_large_and_in_many_languages() -> None:
    assert len(TURNED) >= 40
    assert len(RULES) >= 40


@pytest.mark.parametrize("case", TURNED, ids=lambda case: one_line(case["text"])[:60])
def test_no_piece_of_what_turns_it_round_is_the_users_rule(case: dict[str, Any]) -> None:
    text = case["text"]
    taken = {piece for piece in pieces_of(text) if is_users(piece, text)}
    allowed = {form for piece in case.get("free", ()) for form in (piece, piece.rstrip("."))}
    assert taken <= allowed
    assert is_users(text, text)


@pytest.mark.parametrize("case", RULES, ids=lambda case: one_line(case["text"])[:60])
def test_a_whole_rule_is_the_users(case: dict[str, Any]) -> None:
    text = case["text"]
    for rule in case.get("rules", (text,)):
        assert is_users(rule, text), rule
        assert is_users(one_line(rule), text), rule


@pytest.mark.parametrize("case", TURNED, ids=lambda case: one_line(case["text"])[:60])
def test_a_torn_piece_names_the_text_that_would_count(case: dict[str, Any]) -> None:
    text = case["text"]
    for piece in pieces_of(text) - set(case.get("free", ())):
        saying = saying_of(piece, messages_of([user(text)]))
        if saying is not None and saying.how == "part":
            assert is_users(saying.whole, text), piece
