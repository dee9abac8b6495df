"""Tells which numbers, names and quotations of a line do not stand in its source; numbers may be
rounded or grouped."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from itertools import islice
from typing import NamedTuple

from mcp_compaction.core.limits import LONGEST_ANSWER, MOST_LOOKED_AT
from mcp_compaction.core.log.identifiers import find_identifiers
from mcp_compaction.core.text.patterns import pattern_of
from mcp_compaction.core.text.words import one_line

_FEWEST_QUOTED = 3  # words; less may be a term that is only set apart


@dataclass(frozen=True)
class Evidence:
    """The texts that a draft may speak of, and when each was said."""

    said: Sequence[tuple[str, datetime | None]]

    @cached_property
    def text(self) -> str:
        """All texts in lower case, each behind the time it was said at, with one way to write
        quotes, dashes, slashes and spaces."""
        dated = (f"{at:%Y-%m-%d %H:%M}\n{text}" if at else text for text, at in self.said)
        return "\n".join(_fold_signs(text).lower() for text in dated)

    @cached_property
    def words(self) -> str:
        """The words of all texts, without signs."""
        return f" {_spaced_words(self.text)} "

    @cached_property
    def letters(self) -> str:
        """The letters and digits of all texts, so that `rateLimit` stands in "rate limit"."""
        return self.words.replace(" ", "")

    @cached_property
    def numbers(self) -> list[float]:
        """The numbers of all texts in order."""
        return sorted(values_in(self.text))

    def missing(self, line: str) -> tuple[str, ...]:
        """What the line names and the source does not, as far as it is read: a line that names
        thousands of things must not hold up everything else."""
        said = _fold_signs(line[:LONGEST_ANSWER])
        missing: list[str] = []
        for quoted in islice(_QUOTED.findall(said), MOST_LOOKED_AT):
            if quoted[0] == "`" or len(_spaced_words(quoted).split()) >= _FEWEST_QUOTED:
                missing += [] if self._holds_quotation(quoted) else [quoted]
                said = said.replace(quoted, " ")
        return (*missing, *self._missing_names(_REF.sub(" ", said)))

    def holds_words(self, words: str) -> bool:
        """Whether these words stand here, whatever their case and signs and what they leave out."""
        said = _fold_signs(words).lower()
        pieces = [piece for one in _LEFT_OUT.split(said) if (piece := _spaced_words(one))]
        # Words that are written without spaces have no edges.
        found = (
            piece in self.words if not piece.isascii() else f" {piece} " in self.words
            for piece in pieces
        )
        return bool(pieces) and all(found)

    def _holds_quotation(self, quoted: str) -> bool:
        """Whether these words stand here, or of code the same words elsewhere."""
        pieces = [_spaced_words(piece) for piece in _LEFT_OUT.split(quoted[1:-1].lower())]
        if quoted[0] == "`":
            pieces = " ".join(pieces).split()
        return all(f" {piece} " in self.words for piece in pieces if piece)

    def _missing_names(self, said: str) -> Iterator[str]:
        found = (f.text for f in find_identifiers(said) if f.kind in ("file", "url", "id"))
        names = [name for name in found if not name.isdigit()]
        names += _NAME.findall(said)
        for name in islice(dict.fromkeys(names), MOST_LOOKED_AT):
            if not self.holds_name(name):
                yield name
            if any(map(str.isdigit, name)):  # another may be what a number is the number of
                said = said.replace(name, " ")
        for number in islice(numbers_of(said), MOST_LOOKED_AT):
            if not (number.is_count or number.is_one_of(self.numbers)):
                yield number.text

    def hold(self, names: Iterable[str]) -> bool:
        """Whether all these names stand here."""
        return all(map(self.holds_name, names))

    def holds_name(self, name: str) -> bool:
        """Whether a path, a URL, an id or a name in code stands here, whatever the signs in it, or
        all parts of a path."""
        bare = _NO_NAME.sub("", _fold_signs(name).lower())
        key, _, value = (re.escape(part.strip()) for part in bare.partition("="))
        if value[:1].isdigit() and re.search(rf"{key}\b[^\n\d]{{0,30}}{value}\b", self.text):
            return True
        words = _spaced_words(bare)
        joined = words.replace(" ", "")
        if not joined or f" {words} " in self.words:
            return True
        if len(joined) > 3 and self._holds_letters(joined):
            return True
        parts = [_spaced_words(part) for part in bare.split("/") if part]
        return len(parts) > 1 and all(f" {part} " in self.words for part in parts)

    def _holds_letters(self, joined: str) -> bool:
        """Whether letters stand here, and no longer number; of a hash its beginning will do."""
        is_number = joined[-1].isdigit() and not _HEX.fullmatch(joined)
        end = r"(?!\d)" if is_number else ""
        return joined in self.letters and bool(re.search(joined + end, self.letters))


# How texts are compared

_FOLDS = str.maketrans(
    {**dict.fromkeys("“”„«»「」", '"'), **dict.fromkeys("‘’", "'"), "–": "-", "—": " - ", "\\": "/"}
)
_NO_WORD = pattern_of(r"[\W_]+")
_SPACED = {code: " " for code in range(128) if not chr(code).isalnum()}
_VERSION = pattern_of(r"\bv(?=\d)")
_LEFT_OUT = pattern_of(r"\.\.\.|…|\[[^\[\]]*\]")
# What opens a quotation stands before a word and not behind one: `"a" and "b"` quotes two things.
_QUOTED = pattern_of(r"(?<![\w)\]}])\"(?=[^\s\"])[^\"]{3,}\"|(?<![\w)\]}])`[^`]+`")


def _fold_signs(text: str) -> str:
    return one_line(unicodedata.normalize("NFKC", text).translate(_FOLDS))


def _spaced_words(text: str) -> str:
    """The words of a text with spaces between them, a version as its number."""
    text = _VERSION.sub("", text)
    if text.isascii():  # many times faster than a pattern
        return one_line(text.translate(_SPACED))
    return _NO_WORD.sub(" ", text).strip()


# Names


_NO_NAME = pattern_of(r"^(?:https?://|[./~]+)|[/.,:;]+$|\(\)$")
_REF = pattern_of(r"(?<![\w/.-])[mdpc]\d{1,9}(?:(?:\.\.|-)[mdpc]?\d{1,9})?(?![\w/])")
_HEX = pattern_of(r"(?=[0-9a-f]*\d)[0-9a-f]{7,64}")
_NAME = pattern_of(
    r"\b(?!\d)\w{1,64} ?= ?\d+(?:[.,]\d+)*\b"  # what a name is set to
    r"|(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+"  # an address
    r"|(?<!\w)--?[a-z][\w-]*(?:=\S+)?"  # a flag
    r"|(?<![\w.])(?:[A-Za-z]\w*\.)+[A-Za-z]\w*\(\)|\b[A-Za-z]\w*_\w+|\b[a-z]+(?:[A-Z][a-z0-9]*)+\b"
    r"|\b(?:[A-Z][a-z0-9]{2,}){2,}\b"
    r"|\bv?\d+(?:\.\d+){2,}\b|\b\d{4}-\d\d-\d\d\b"  # a version, an address of a host, a day
    r"|\b(?!\d+(?:min|sec)s?\b)(?=\w*\d)(?=\w*[A-Za-z]\w*[A-Za-z]\w*[A-Za-z])[A-Za-z0-9]+\b"
    r"|\b\d{16,}\b"
)


LARGEST_COUNT = 20  # a summarizer counts so far by itself
_NUMBER = pattern_of(
    r"(?<![^\W_])(?<!\d\.)v?(?P<digits>\d{1,15}(?:\.\d{1,40})?)"
    r"(?: ?(?P<unit>%|(?:ms|s|sec|min|h|[kKMGT]i?B|[kKMB])\b))?(?![^\W_])(?!\.\d)"
)
_SCALES = {"k": 1e3, "K": 1e3, "M": 1e6}
_GROUPED = pattern_of(r"[,_'](?<=\d[,_'])(?=\d{3}(?!\d))")
# It begins with what a search finds fast; looking back, it passes over the inside of an id.
_SOURCE_NUMBER = pattern_of(
    r"\d(?<!\d\d)(?<!\d\.\d)(?<!\d[^\W\d_]\d)(?<!\d[^\W\d_]{2}\d)\d*+(?:\.\d{1,40})?"
    r"(?=[^\W\d_]{0,3}(?![^\W_]))"
)


class Number(NamedTuple):
    """A number of a line, and how far it may stand from one of the source."""

    text: str
    value: float
    margin: float
    scale: float

    @property
    def is_count(self) -> bool:
        """Whether a summarizer may have counted it itself."""
        return self.text.isdigit() and self.value <= LARGEST_COUNT

    def is_one_of(self, values: Sequence[float]) -> bool:
        """Whether the number is among values in order, as it stands or in thousands or millions."""
        for scale in {1.0, self.scale}:
            place = bisect_left(values, (self.value - self.margin) * scale - 1e-9)
            most = (self.value + self.margin) * scale + 1e-9
            if place < len(values) and values[place] <= most:
                return True
        return False


def numbers_of(line: str) -> Iterator[Number]:
    """The numbers of a line, in its order; what is written with a point, in thousands or with many
    zeros may be rounded."""
    for match in _NUMBER.finditer(_GROUPED.sub("", line)):
        digits, scale = match["digits"], _SCALES.get(match["unit"] or "", 1.0)
        places = len(digits.partition(".")[2])
        zeros = 0 if places else len(digits) - len(digits.rstrip("0"))
        is_rounded = places or zeros > 2 or scale > 1
        last = 10.0 ** (zeros if zeros > 2 else -places)
        yield Number(match[0], float(digits), last / 2 if is_rounded else 0.0, scale)


def values_in(text: str) -> frozenset[float]:
    """The numbers that stand in a text as digits."""
    return frozenset(map(float, set(_SOURCE_NUMBER.findall(_GROUPED.sub("", text)))))
