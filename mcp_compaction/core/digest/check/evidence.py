"""Tells which numbers, names and quotations of a line do not stand in its source."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from itertools import islice

from mcp_compaction.core.limits import LONGEST_ANSWER, MOST_LOOKED_AT
from mcp_compaction.core.log.identifiers import find_identifiers
from mcp_compaction.core.text.numbers import numbers_of, values_in
from mcp_compaction.core.text.patterns import pattern_of
from mcp_compaction.core.text.words import one_line

_FEWEST_QUOTED = 3  # words; less may be a term that is only set apart


@dataclass(frozen=True)
class Evidence:
    """The texts that a draft may speak of, and when each was said."""

    said: Sequence[tuple[str, datetime | None]]

    @cached_property
    def folded(self) -> tuple[str, ...]:
        """Each text in lower case behind the time it was said at, with one way to write quotes,
        dashes, slashes and spaces."""
        dated = (f"{at:%Y-%m-%d %H:%M}\n{text}" if at else text for text, at in self.said)
        return tuple(_fold_signs(text).lower() for text in dated)

    @cached_property
    def text(self) -> str:
        """All texts together, folded."""
        return "\n".join(self.folded)

    @cached_property
    def words(self) -> str:
        """The words of all texts, without signs."""
        return f" {' '.join(map(_spaced_words, self.folded))} "

    @cached_property
    def letters(self) -> str:
        """The letters and digits of all texts, so that `rateLimit` stands in "rate limit"."""
        return "".join(map(_join_letters, self.folded))

    @cached_property
    def numbers(self) -> list[float]:
        """The numbers of all texts in order."""
        return sorted(frozenset[float]().union(*map(values_in, self.folded)))

    def missing(self, line: str) -> tuple[str, ...]:
        """What the line names and the source does not, as far as it is read: a line that names
        thousands of things must not hold up everything else."""
        said = _CODE_NUMBER.sub(r"\1", _fold_signs(line[:LONGEST_ANSWER]))
        missing: list[str] = []
        for quoted in islice(_QUOTED.finditer(said), MOST_LOOKED_AT):
            is_held = self._holds_quotation(quoted[0])
            is_term = quoted[0][0] != "`" and len(_spaced_words(quoted[0]).split()) < _FEWEST_QUOTED
            missing += [] if is_held or is_term else [quoted[0]]
            said = said.replace(quoted[0], f" {quoted[0][1:-1]} " if is_term else " ")
        said = _CUT_SHORT.sub(self._without_beginning, said)
        return (*missing, *self._missing_names(_REF.sub(" ", said)))

    def _without_beginning(self, cut: re.Match[str]) -> str:
        return " " if cut[1].lower() in self.text else cut[0]

    def _holds_quotation(self, quoted: str) -> bool:
        inner = quoted[1:-1].lower()
        pieces = [_spaced_words(piece) for piece in re.split(r"\.\.\.|\[[^\]]*\]", inner)]
        if all(f" {piece} " in self.words for piece in pieces if piece):
            return True
        is_code = quoted[0] == "`"
        return is_code and all(f" {word} " in self.words for word in _spaced_words(inner).split())

    def _missing_names(self, said: str) -> Iterator[str]:
        found = (f.text for f in find_identifiers(said) if f.kind in ("file", "url", "id"))
        names = [name for name in found if not name.isdigit()]
        names += _NAME.findall(said)
        for name in islice(dict.fromkeys(names), MOST_LOOKED_AT):
            if not self.holds_name(name):
                yield name
            if _DIGIT.search(name):  # another may be what a number is the number of
                said = said.replace(name, " ")
        for number in islice(numbers_of(said), MOST_LOOKED_AT):
            if not (number.is_count or number.is_one_of(self.numbers)):
                yield number.text

    def holds_name(self, name: str) -> bool:
        """Whether a path, a URL, an id or a name in code stands here, or a path's last parts."""
        bare = _NO_NAME.sub("", _fold_signs(name).lower())
        if not bare or _is_in(bare, self.text):
            return True
        key, _, value = (re.escape(part.strip()) for part in bare.partition("="))
        if value[:1].isdigit() and re.search(rf"{key}\b[^\n\d]{{0,30}}{value}\b", self.text):
            return True
        if _HEX.fullmatch(bare):  # a hash is known by its first digits
            return bool(re.search(rf"{bare}(?<![0-9a-z]{bare})", self.text))
        if len(_join_letters(bare)) > 3 and _is_joined_in(_join_letters(bare), self.letters):
            return True
        parts = [part for part in re.split(r"[/.:]+", bare) if part]
        return len(parts) > 1 and "/" in bare and all(_is_in(part, self.text) for part in parts)


# How texts are compared

_FOLDS = str.maketrans(
    {**dict.fromkeys("“”„«»「」", '"'), **dict.fromkeys("‘’", "'"), "–": "-", "—": " - ", "\\": "/"}
)
_NO_WORD = pattern_of(r"[^\w]+|_+")
_NO_LETTERS = [code for code in range(128) if not chr(code).isalnum()]
_SPACED, _CLOSED = dict.fromkeys(_NO_LETTERS, " "), dict.fromkeys(_NO_LETTERS)
# What opens a quotation stands before a word and not behind one: `"a" and "b"` quotes two things.
_QUOTED = pattern_of(r"(?<![\w)\]}])\"(?=[^\s\"])[^\"]{3,}\"|(?<![\w)\]}])`[^`]+`")
_CUT_SHORT = pattern_of(r"(?<!\S)(\S{4,})\.\.\.(?!\w)")  # the beginning of a long name
_CODE_NUMBER = pattern_of(r"`([\d.,]+)`")  # a number as it is often set in prose


def _fold_signs(text: str) -> str:
    return one_line(unicodedata.normalize("NFKC", text).translate(_FOLDS))


def _spaced_words(text: str) -> str:
    if text.isascii():  # many times faster than a pattern
        return one_line(text.translate(_SPACED))
    return _NO_WORD.sub(" ", text).strip()


def _join_letters(text: str) -> str:
    return text.translate(_CLOSED) if text.isascii() else _NO_WORD.sub("", text)


def _is_in(name: str, text: str) -> bool:
    # The name comes first in the pattern, since a search finds plain letters fast.
    said = re.escape(name)
    alone = rf"{said}(?:(?<![^\W_]{said})|(?<=(?<![^\W_])v{said}))(?![^\W_])"
    return name in text and bool(re.search(alone, text))


def _is_joined_in(name: str, letters: str) -> bool:
    end = r"(?!\d)" if name[-1].isdigit() else ""
    return name in letters and bool(re.search(name + end, letters))


# Names


_NO_NAME = pattern_of(r"^(?:https?://|[./~]+|v(?=\d))|[/.,:;]+$|\(\)$")
_REF = pattern_of(r"(?<![\w/.-])[mdpc]\d{1,9}(?:(?:\.\.|-)[mdpc]?\d{1,9})?(?![\w/])")
_DIGIT = pattern_of(r"\d")
_HEX = pattern_of(r"(?=[0-9a-f]*\d)[0-9a-f]{7,64}")
_NAME = pattern_of(
    r"\b(?!\d)\w{1,64} ?= ?\d+(?:[.,]\d+)*\b"  # what a name is set to
    r"|(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+"  # an address
    r"|(?<!\w)--?[a-z][\w-]*(?:=\S+)?"  # a flag
    r"|(?<![\w.])(?:[A-Za-z]\w*\.)+[A-Za-z]\w*\(\)|\b[A-Za-z]\w*_\w+|\b[a-z]+(?:[A-Z][a-z0-9]*)+\b"
    r"|\b(?:[A-Z][a-z0-9]{2,}){2,}\b"
    r"|\bv?\d+(?:\.\d+){2,}\b|\b\d{4}-\d\d-\d\d\b"  # a version, an address of a host, a day
    r"|\b(?=\w*\d)(?=\w*[A-Za-z]\w*[A-Za-z]\w*[A-Za-z])[A-Za-z0-9]+\b"
    r"|\b\d{16,}\b"
)
