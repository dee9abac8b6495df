"""Reads a language's words of time from its lexicon: months, weekdays, units, near days."""

from __future__ import annotations

import re
from functools import cache, cached_property

from mcp_compaction.core.text.patterns import pattern_of
from mcp_compaction.core.text.words import one_line
from mcp_compaction.lexicon.languages import Lexicon, read_lexicon


class DateWords:
    """The words of time of one language, and the expressions that name days with them."""

    def __init__(self, lexicon: Lexicon) -> None:
        """Take a lexicon; nothing is compiled before it is used."""
        self._lexicon = lexicon

    def number_of(self, table: str, word: str | None) -> int | None:
        """What a word stands for in a table of numbers, if it stands there."""
        found = self._lexicon.tables.get(table, {}).get(_fold(word or ""))
        return None if found is None else int(found)

    def meaning_of(self, table: str, word: str | None) -> str:
        """The English word that a word stands for in a table."""
        return self._lexicon.tables.get(table, {}).get(_fold(word or ""), "")

    def is_in(self, name: str, word: str) -> bool:
        """Whether a word stands in a list."""
        return word.lower() in self._lexicon.lists.get(name, ())

    @cached_property
    def rows(self) -> tuple[tuple[re.Pattern[str], str], ...]:
        """The expressions in their order, each with what reads it."""
        return tuple(
            (_compile("|".join(map(self._spaced, sign.pattern))), sign.reads)
            for sign in self._lexicon.sign
            if sign.kind == "date"
        )

    def _spaced(self, pattern: str) -> str:
        """A pattern in which a space stands for any white space."""
        return self._lexicon.fill(pattern).replace(" ?", r"\s*").replace(" ", r"\s+")


def _compile(pattern: str) -> re.Pattern[str]:
    # ASCII where it can be, so that no letter of another alphabet passes for one of a name.
    return pattern_of(pattern, re.I | re.A if pattern.isascii() else re.I)


def _fold(word: str) -> str:
    return one_line(word.lower()).rstrip(".")


@cache
def date_words_of(language: str) -> DateWords:
    """The words of time of a language."""
    return DateWords(read_lexicon(language))
