"""Reads the numbers of a line and of its source, however they are rounded, grouped or scaled."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from mcp_compaction.core.text.patterns import pattern_of

LARGEST_COUNT = 20  # a summarizer counts so far by itself
LONGEST_NUMBER = 15  # digits; what is longer is an id
_FEWEST_ZEROS = 3  # at the end of a number that was rounded
_ROUGH = 0.1  # "~1,200" may be 1,187

_NUMBER = pattern_of(
    r"(?<![^\W_])(?<!\d\.)(?P<rough>[~≈<>] ?)?v?(?P<digits>\d{1,15}(?:\.\d{1,40})?)"
    r"(?: ?(?P<unit>%|(?:ms|s|sec|min|h|[kKMGT]i?B|[kKMB])\b))?(?![^\W_])(?!\.\d)"
)
_KEY = pattern_of(r"\b((?!\d)\w{1,64}) ?= ?$")
_KILO = 1_000.0
_SIZES = {"k": _KILO, "K": _KILO, "M": _KILO**2, "B": _KILO**3, "%": 1 / 100}
# Each in the smallest of its kind: one may be told as any other.
_TIMES = {"ms": 1.0, "s": _KILO, "sec": _KILO, "min": 60 * _KILO, "h": 3_600 * _KILO}
_BYTES = {
    prefix + unit: base**power
    for unit, base in (("B", _KILO), ("iB", 1_024.0))
    for prefix, power in {"": 0, "k": 1, "K": 1, "M": 2, "G": 3, "T": 4}.items()
}


class Number(NamedTuple):
    """A number of a line, and how far it may stand from one of the source."""

    text: str
    value: float
    margin: float
    factors: tuple[float, ...]
    key: str  # what it is assigned to, as in code

    @property
    def has_unit(self) -> bool:
        """Whether it may be written in another unit."""
        return len(self.factors) > 1

    @property
    def is_count(self) -> bool:
        """Whether a summarizer may have counted it itself."""
        return self.text.isdigit() and self.value <= LARGEST_COUNT and not self.key

    def is_one_of(self, values: Sequence[float]) -> bool:
        """Whether the number is among values in order, in any unit it may be written in."""
        return any(self._is_at(self.value * factor, values) for factor in self.factors)

    def _is_at(self, value: float, values: Sequence[float]) -> bool:
        margin = self.margin * value + 1e-9
        place = bisect_left(values, value - margin)
        return place < len(values) and values[place] <= value + margin


def numbers_of(line: str) -> Iterator[Number]:
    """The numbers of a line, in its order."""
    plain = _GROUPED.sub("", line)
    for match in _NUMBER.finditer(plain):
        value, unit = float(match["digits"]), match["unit"]
        margin = _last_place_of(match["digits"], unit is not None) / (2 * value) if value else 0.0
        key = _KEY.search(plain, max(0, match.start() - 70), match.start())
        yield Number(
            match[0].strip(" ~≈<>"),
            value,
            max(margin, _ROUGH) if match["rough"] else margin,
            _factors_of(unit),
            key[1] if key else "",
        )


def _last_place_of(digits: str, has_unit: bool) -> float:
    """What the last place of a number stands for that may be rounded; 0 where it is exact."""
    if not digits.isdigit():
        return 10.0 ** -len(digits.partition(".")[2])
    zeros = len(digits) - len(digits.rstrip("0"))
    return 10.0**zeros if zeros >= _FEWEST_ZEROS else float(has_unit)


def _factors_of(unit: str | None) -> tuple[float, ...]:
    """What a number may be multiplied by to be the same in another unit."""
    if unit is None:
        return (1.0,)
    if unit in _SIZES:
        return (_SIZES[unit], 1.0)
    units = _TIMES if unit in _TIMES else _BYTES
    return (1.0, *(units[unit] / other for other in units.values()))


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
