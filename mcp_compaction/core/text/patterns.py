"""Writes tables of words and of patterns, for the modules that read speech."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, cast


class _Late:
    """A pattern that is compiled when it is first used."""

    def __init__(self, pattern: str, flags: int) -> None:
        self.pattern = pattern
        self.flags = flags

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        compiled = re.compile(self.pattern, self.flags)
        # From now on its methods are found without a detour: they are called for every sentence.
        methods = ("search", "match", "fullmatch", "finditer", "findall", "split", "sub", "subn")
        for method in methods:
            setattr(self, method, getattr(compiled, method))
        return getattr(compiled, name)


def pattern_of(source: str, flags: int = 0) -> re.Pattern[str]:
    """A pattern that costs nothing until it is used: most commands use none of the core's."""
    return cast("re.Pattern[str]", _Late(source, flags))


# Stretches of a text that are not its writer's own words.
# Each way begins with a plain sign, so that a search passes over all the others at once.
FENCED = pattern_of(r"```.*?(?:```|\Z)|~~~(?<=^~~~).*?(?:^~~~|\Z)", re.S | re.M)
INLINE_CODE = pattern_of(r"`[^`\n]*`")
QUOTED = pattern_of(
    r"\"[^\"\n]{0,300}\"|“[^”\n]{0,300}”|«[^»\n]{0,300}»|「[^」\n]{0,300}」|„[^“”\n]{0,300}[“”]"
    r"|'(?<!\w')[^'\n]{0,300}'(?!\w)"
)


def without_examples(text: str) -> str:
    """A text without its blocks of code and its commands, which show how to type."""
    return INLINE_CODE.sub(lambda c: "" if " " in c[0] else c[0], FENCED.sub("", text))


def any_of(*patterns: str) -> re.Pattern[str]:
    """One pattern for several, in whatever case."""
    if not any(patterns):
        raise ValueError("a pattern of nothing would be found everywhere")
    return pattern_of("|".join(f"(?:{pattern})" for pattern in patterns), re.I)


def cuts_at(*at_space: str) -> re.Pattern[str]:
    """Where a text is cut: in these ways, which begin with white space, and after wide stops."""
    return pattern_of(rf"(?=\s)(?:{'|'.join(at_space)})|(?<=[。！？])", re.M)


def cutting_table(signs: str) -> bytes:
    """A table for `cut_words`, of the ASCII signs that words consist of; capitals that are not
    among them count as small letters."""
    found = (next((c for c in (chr(n), chr(n).lower()) if c in signs), " ") for n in range(256))
    return "".join(found).encode()


def cut_words(text: str, table: bytes) -> list[str]:
    """The words of a text whose bytes become what a table says: many times faster than a pattern.
    A table of signs is for ASCII texts; one that leaves wide letters as they are, for all."""
    cut = text.encode("utf-8", "surrogatepass").translate(table)
    return cut.decode("utf-8", "surrogatepass").split()


def may_say(text: str, words: Iterable[str]) -> bool:
    """Whether a text holds any of some lowercase words, in capitals or not: a cheap look that
    spares most texts a pattern which needs one of them. Beyond ASCII letters have several forms,
    so a text with such letters may always."""
    return not text.isascii() or any(map(text.lower().__contains__, words))
