"""Finds names of people, places and products in a line, which nobody writes with a small letter."""

from __future__ import annotations

from collections.abc import Iterator

from mcp_compaction.core.text.language import main_language
from mcp_compaction.core.text.patterns import pattern_of

_NAME = pattern_of(
    r"(?<![\w./@#$%<{(\[_-])[A-Z][a-zà-ÿ]{2,}(?: [A-Z][a-zà-ÿ]{2,}){0,3}(?![\w/(=_*:-]|\.\w)"
)
_INSIDE_SENTENCE = pattern_of(r"[^\W\d_][,)]? $")  # what stands before the name
_WORD = pattern_of(r"[^\W\d_]{3,}")
# In these every noun is written with a capital.
_CAPITAL_NOUNS = ("de",)


def proper_names(line: str) -> Iterator[str]:
    """The names in a line, by their capitals; the word that begins a sentence has one anyway."""
    words = _WORD.findall(line)
    capitals = sum(word[0].isupper() for word in words)
    if capitals > 1 and 2 * capitals > len(words):  # a heading
        return
    if main_language(line) in _CAPITAL_NOUNS:
        return
    for found in _NAME.finditer(line):
        is_inside = _INSIDE_SENTENCE.search(line[: found.start()])
        name = found[0] if is_inside else found[0].partition(" ")[2]
        if name:
            yield name
