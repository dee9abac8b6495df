"""Writes tables of words and of patterns, for the modules that read speech."""

from __future__ import annotations

import re
from collections.abc import Iterable

# Stretches of a text that are not its writer's own words.
FENCED = re.compile(r"```.*?(?:```|\Z)|^~~~.*?(?:^~~~|\Z)", re.S | re.M)
INLINE_CODE = re.compile(r"`[^`\n]*`")
QUOTED = re.compile(
    r"\"[^\"\n]{0,300}\"|“[^”\n]{0,300}”|«[^»\n]{0,300}»|「[^」\n]{0,300}」|„[^“”\n]{0,300}[“”]"
    r"|(?<!\w)'[^'\n]{0,300}'(?!\w)"
)


def any_of(*patterns: str) -> re.Pattern[str]:
    """One pattern for several, in whatever case."""
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns), re.I)


def word_set(words: str) -> frozenset[str]:
    """The words of a table."""
    return frozenset(re.findall(r"[\w']+", words))


def may_say(text: str, words: Iterable[str]) -> bool:
    """Whether a text holds any of some lowercase words, in capitals or not: a cheap look that
    spares most texts a pattern which needs one of them. Beyond ASCII letters have several forms,
    so such a text may always."""
    if not text.isascii():
        return True
    lower = text.lower()
    return any(word in lower for word in words)
