"""Finds what a user seems to want kept in force: rules, limits, preferences; offered as pins."""

from __future__ import annotations

from mcp_compaction.core.text.patterns import pattern_of
from mcp_compaction.core.text.reading import read_once
from mcp_compaction.core.text.sentences import spoken_sentences
from mcp_compaction.core.text.signs import find_sign
from mcp_compaction.core.text.words import one_line

_MOST_CHARS = 400  # what is longer is a paste rather than a rule
_MARKUP = pattern_of(r"\*+|^[^\w\s\"'(@/~.-]+ ")  # bold words, and pictures before a sentence


@read_once
def find_rules(text: str) -> tuple[str, ...]:
    """The sentences of a text that state a constraint which outlasts the task, word for word."""
    return tuple(
        text[sentence.start : sentence.end]
        for sentence in spoken_sentences(text)
        if sentence.end - sentence.start <= _MOST_CHARS
        and find_sign("rule", sentence._replace(bare=one_line(_MARKUP.sub("", sentence.bare))))
    )
