"""Finds what a user seems to want kept in force: rules, limits, preferences; offered as pins."""

from __future__ import annotations

from typing import NamedTuple

from mcp_compaction.core.text.patterns import pattern_of
from mcp_compaction.core.text.reading import read_once
from mcp_compaction.core.text.sentences import spoken_sentences
from mcp_compaction.core.text.signs import find_sign
from mcp_compaction.core.text.words import one_line
from mcp_compaction.lexicon.languages import Strength

_MARKUP = pattern_of(r"\*+|^[^\w\s\"'(@/~.-]+ ")  # bold words, and pictures before a sentence


class FoundRule(NamedTuple):
    """A sentence that may state a rule, word for word, and how plainly it does."""

    text: str
    strength: Strength


def find_rules(text: str) -> tuple[str, ...]:
    """The sentences of a text that state a constraint which outlasts the task, word for word."""
    return tuple(found.text for found in find_likely_rules(text) if found.strength != "hint")


@read_once
def find_likely_rules(text: str) -> tuple[FoundRule, ...]:
    """The rules of a text, and the sentences that are too vague to count and may be offered."""
    found: list[FoundRule] = []
    for sentence in spoken_sentences(text):
        start, end = sentence.start, sentence.end
        shown = find_sign("rule", sentence._replace(bare=_without_markup(sentence.bare)))
        if shown is not None:
            found.append(FoundRule(text[start:end], shown.sign.strength))
    return tuple(found)


def _without_markup(bare: str) -> str:
    line = one_line(bare)
    return _MARKUP.sub("", line) if "*" in line or not line[:1].isalnum() else line
