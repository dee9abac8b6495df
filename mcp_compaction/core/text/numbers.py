"""Reads the numbers of a line and of its source, be they rounded or grouped."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from mcp_compaction.core.text.patterns import pattern_of

LARGEST_COUNT = 20  # a summarizer counts so far by itself
LONGEST_NUMBER = 15  # digits; what is longer is an id
_FEWEST_ZEROS = 3  # at the end of a number that was rounded

_NUMBER = pattern_of(
    r"(?<![^\W_])(?<!\d\.)v?(?P<digits>\d{1,15}(?:\.\d{1,40})?)"
    r"(?: ?(?P<unit>%|(?:ms|s|sec|min|h|[kKMGT]i?B|[kKMB])\b))?(?![^\W_])(?!\.\d)"
)
_KEY = pattern_of(r"\b((?!\d)\w{1,64}) ?= ?$")
_SCALES = {"k": 1_000.0, "K": 1_000.0, "M": 1_000_000.0}


class Number(NamedTuple):
    """A number of a line, and how far it may stand from one of the source."""

    text: str
    value: float
    margin: float
    scale: float
    key: str  # what it is assigned to, as in code

    @property
    def is_count(self) -> bool:
        """Whether a summarizer may have counted it itself."""
        return self.text.isdigit() and self.value <= LARGEST_COUNT and not self.key

    def is_one_of(self, values: Sequence[float]) -> bool:
        """Whether the number is among values in order, as it stands or in thousands or millions."""
        return any(self._is_at(scale, values) for scale in {1.0, self.scale})

    def _is_at(self, scale: float, values: Sequence[float]) -> bool:
        value, margin = self.value * scale, self.margin * scale + 1e-9
        place = bisect_left(values, value - margin)
        return place < len(values) and values[place] <= value + margin


def numbers_of(line: str) -> Iterator[Number]:
    """The numbers of a line, in its order."""
    plain = _GROUPED.sub("", line)
    for match in _NUMBER.finditer(plain):
        digits, scale = match["digits"], _SCALES.get(match["unit"] or "", 1.0)
        key = _KEY.search(plain, max(0, match.start() - 70), match.start())
        margin = _last_place_of(digits, scale > 1) / 2
        yield Number(match[0], float(digits), margin, scale, key[1] if key else "")


def _last_place_of(digits: str, is_scaled: bool) -> float:
    """What the last place of a number stands for that may be rounded; 0 where it is exact."""
    if not digits.isdigit():
        return 10.0 ** -len(digits.partition(".")[2])
    zeros = len(digits) - len(digits.rstrip("0"))
    return 10.0**zeros if zeros >= _FEWEST_ZEROS else float(is_scaled)


_GROUPED = pattern_of(r"[,_'](?<=\d[,_'])(?=\d{3}(?!\d))")
# It begins with what a search finds fast; looking back, it passes over the inside of an id.
_SOURCE_NUMBER = pattern_of(
    r"\d(?<!\d\d)(?<!\d\.\d)(?<!\d[^\W\d_]\d)(?<!\d[^\W\d_]{2}\d)\d*+(?:\.\d{1,40})?"
    r"(?=[^\W\d_]{0,3}(?![^\W_]))"
)


def values_in(text: str) -> frozenset[float]:
    """The numbers that stand in a text as digits."""
    return frozenset(map(float, set(_SOURCE_NUMBER.findall(_GROUPED.sub("", text)))))


def is_assigned(number: Number, text: str) -> bool:
    """Whether a text in lower case names the number's key and, soon behind it, the number."""
    digits = re.escape(re.sub(r"[^\d.]", "", number.text))
    key = re.escape(number.key.lower())
    return re.search(rf"{key}\b[^\n\d]{{0,30}}{digits}\b", text) is not None
