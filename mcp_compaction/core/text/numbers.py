"""Reads the numbers of a line and of its source, be they rounded or grouped."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from mcp_compaction.core.text.patterns import pattern_of

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
