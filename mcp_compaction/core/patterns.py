"""Writes tables of words and of patterns, for the modules that read speech."""

from __future__ import annotations

import re


def any_of(*patterns: str) -> re.Pattern[str]:
    """One pattern for several, in whatever case."""
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns), re.I)


def word_set(words: str) -> frozenset[str]:
    """The words of a table."""
    return frozenset(re.findall(r"[\w']+", words))
