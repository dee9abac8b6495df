"""Writes tables of words and of patterns, for the modules that read speech."""

from __future__ import annotations

import re

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
