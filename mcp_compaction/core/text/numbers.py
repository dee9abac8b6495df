"""Reads the numbers of a line and of its source, each with what it is the number of."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice

from mcp_compaction.core.text.patterns import any_of, pattern_of, word_set

LARGEST_COUNT = 20  # a summarizer counts so far by itself
LONGEST_NUMBER = 15  # digits; what is longer is an id
_LONGEST_KEY = 64
_ROUGH = 0.1  # "about 1,200" may be 1,187


@dataclass(frozen=True)
class Number:
    """A number of a line, and how far it may stand from one of the source."""

    text: str
    value: float
    margin: float = 0.0  # as a share of the value
    factors: tuple[float, ...] = (1.0,)
    is_count: bool = False  # a summarizer may have counted it itself
    key: str = ""  # what it is the number of
    is_assigned: bool = False  # `key=number`, as in code
    is_setting: bool = False  # its key is always named with it

    def __str__(self) -> str:
        between = "=" if self.is_assigned else " " if self.key else ""
        return f"{self.key}{between}{self.text}".strip(" .,:;")

    def is_one_of(self, values: Sequence[float]) -> bool:
        """Whether the number is among values in order, in any unit it may be written in."""
        return any(self._is_at(self.value * factor, values) for factor in self.factors)

    def _is_at(self, value: float, values: Sequence[float]) -> bool:
        margin = self.margin * value + 1e-9
        place = bisect_left(values, value - margin)
        return place < len(values) and values[place] <= value + margin


# What is known by its number: what is set to it, and what may be told of in other words too.
_SETTINGS = (
    r"ports?|pid|timeouts?|limits?|threshold|retries|level|quota|priority|replicas|workers|ttl"
    r"|depth|seed|uid"
)
_OTHERS = (
    r"versions?|lines?|issues?|prs?|tickets?|codes?|status|builds?|releases?|budget|price|cost"
    r"|max(?:imum)?|min(?:imum)?|ids?|size|rate|revision|rev"
)
_BETWEEN = (
    r"(?:(?:is|was|are|were|be|been|has|now|set|of|to|at|on|from|number|code|changed|moved|switched"
    r"|raised|lowered|increased|reduced) )*"
)
_KEY = pattern_of(
    rf"(?:\b(?:({_SETTINGS})|({_OTHERS}))(?: ?[:=(>→-]+ ?| ){_BETWEEN}(?:\d[\w.]* ?(?:to|->|→) )?"
    rf"|\b((?!\d)\w+) ?= ?)[#v$€£]?$|[#v$€£]$",
    re.I,
)
_ROUGHLY = any_of(r"(?:about|around|roughly|nearly|almost|over|under|circa|ca\.|[~≈<>]) ?[$€£]?$")
_NUMBER = pattern_of(
    r"(?<![^\W_])(?<!\d\.)(v)?(\d{1,15})(\.\d{1,40})?"
    r"(?: ?(%|(?:ms|s|sec|min|h|[kKMGT]i?B|[kKMB])\b))?(?![^\W_])(?!\.\d)"
)
_SIZES = {"k": 1e3, "K": 1e3, "M": 1e6, "B": 1e9}
_TIMES = (1.0, 1e3, 1e-3, 60.0, 1 / 60, 3_600.0, 1 / 3_600)
_BYTES = (1.0, 1e3, 1e-3, 1e6, 1e-6, 1_024.0, 1 / 1_024, 1_024.0**2, 1_024.0**-2)


def numbers_of(line: str) -> Iterator[Number]:
    """The numbers of a line, in its order."""
    return (_read_number(match) for match in _NUMBER.finditer(_without_grouping(line)))


def _read_number(match: re.Match[str]) -> Number:
    version, whole, decimals, unit = match.groups()
    value = float(whole + (decimals or ""))
    before = match.string[max(0, match.start() - _LONGEST_KEY) : match.start()]
    key = _KEY.search(before)
    if version or key:
        return _with_key(Number(match[0], value, factors=_factors_of(unit)), key)
    last_place = 0.5 / 10 ** len((decimals or ".")[1:])
    is_exact = not decimals and not unit
    margin = 0.0 if is_exact or not value else last_place / value
    if _ROUGHLY.search(before):
        margin = max(margin, _ROUGH)
    return Number(match[0], value, margin, _factors_of(unit), is_exact and value <= LARGEST_COUNT)


def _with_key(number: Number, key: re.Match[str] | None) -> Number:
    setting, other, assigned = key.groups("") if key else ("", "", "")
    is_assigned = bool(key and "=" in key[0])
    return replace(
        number,
        key=setting or other or assigned,
        is_assigned=is_assigned,
        is_setting=is_assigned or bool(setting),
    )


def _factors_of(unit: str | None) -> tuple[float, ...]:
    if unit is None:
        return (1.0,)
    if unit in _SIZES:
        return (_SIZES[unit], 1.0)
    if unit == "%":
        return (1.0, 0.01)
    return _TIMES if unit in ("ms", "s", "sec", "min", "h") else _BYTES


# The numbers of a source

_GROUPED = pattern_of(r"[,_'](?<=\d[,_'])(?=\d{3}(?!\d))")
# It begins with what a search finds fast; looking back, it passes over the inside of an id.
_SOURCE_NUMBER = pattern_of(
    r"\d(?<!\d\d)(?<!\d\.\d)(?<!\d[^\W\d_]\d)(?<!\d[^\W\d_]{2}\d)\d*+(?:\.\d{1,40})?"
    r"(?=[^\W\d_]{0,3}(?![^\W_]))"
)


def values_in(text: str) -> frozenset[float]:
    """The numbers that stand in a text as digits."""
    return frozenset(map(float, set(_SOURCE_NUMBER.findall(_without_grouping(text)))))


def _without_grouping(text: str) -> str:
    return _GROUPED.sub("", text)


_SHORT_STEM = 3  # letters; what is no longer stands inside too many words
_MOST_PLACES = 200  # a number that stands in more is the number of many things
_FAR_BEFORE, _FAR_AFTER = 160, 30  # characters
_JOINED = (
    r"(?:(?:[\s/,&+(-]|->|→|\b(?:and|or|to|from|then|not|instead|of|was|now|by)\b)+\d[\w.%]*)*"
)
_STOP = pattern_of(r"[.!?;]\s|\n")
_WORD = pattern_of(r"[^\W_]+")
_SIGNED = pattern_of(r"(?:[a-z\])]:|[#$€£])$")  # host:8080, file.py:12, #12, $5
# Words between a number and what it is the number of, and words that say it is of nothing.
_LINKS = word_set("is was are were be been of number no the to at now set value equals")
_OWNS_NOTHING = word_set(
    """
a about all allow an and as both bind but by chose for from got go in instead it just keep
listen listens make most need new not on only or pick prefer run runs say says take than that then
this try up use uses want we went will with you
"""
)


@dataclass(frozen=True)
class KeyedNumbers:
    """The numbers of a text in lower case, each by the word it is the number of."""

    text: str

    def is_given(self, key: str) -> bool:
        """Whether the text gives the key a number at all."""
        return bool(self._values(key))

    def gives(self, number: Number) -> bool:
        """Whether the text gives the key this number, or names it nearby as nothing else's."""
        if number.is_one_of(self._values(number.key)):
            return True
        asked = (number.key.lower(), number.text)
        if asked not in self._near:
            self._near[asked] = self._is_near(*asked)
        return self._near[asked]

    @cached_property
    def _plain(self) -> str:
        return _without_grouping(self.text)

    @cached_property
    def _values_by_stem(self) -> dict[str, list[float]]:
        return {}

    @cached_property
    def _near(self) -> dict[tuple[str, str], bool]:
        return {}

    def _values(self, key: str) -> list[float]:
        stem = _stem_of(key)
        if stem not in self._values_by_stem:
            given = "\n".join(_numbers_given(stem).findall(self._plain))
            self._values_by_stem[stem] = sorted(values_in(given))
        return self._values_by_stem[stem]

    def _is_near(self, key: str, number: str) -> bool:
        digits = re.escape(re.sub(r"[^\d.]", "", number))
        stands = re.compile(rf"{digits}(?<![\w.]{digits})(?=[^\W\d_]{{0,3}}(?![^\W_]|\.\d))")
        places = list(islice(stands.finditer(self._plain), _MOST_PLACES))
        return len(places) == _MOST_PLACES or any(self._is_of(key, *m.span()) for m in places)

    def _is_of(self, key: str, start: int, end: int) -> bool:
        before = self._plain[max(0, start - _FAR_BEFORE) : start]
        if _SIGNED.search(before):
            return True
        stem = _stem_of(key)
        owner = _owner_of(before)
        after = _last_place(stem, _STOP.split(self._plain[end : end + _FAR_AFTER])[0])
        if after >= 0 and not _numbers_given(stem).match(self._plain, end + after):
            return owner is None or after == 1
        place = _last_place(stem, before)
        if place < 0 or owner is None:
            return place >= 0
        is_given = _numbers_given(stem).match(self._plain, start - len(before) + place)
        return not is_given and not _IS_KEY.fullmatch(owner)


_IS_KEY = pattern_of(f"{_SETTINGS}|{_OTHERS}")


def _owner_of(before: str) -> str | None:
    """The word that says what the number after it is the number of."""
    clause = _STOP.split(before)[-1]
    said = (word for word in reversed(_WORD.findall(clause)) if word not in _LINKS)
    owner = next(said, "0")
    is_none = owner in _OWNS_NOTHING or owner.isdigit() or owner.endswith(("ed", "ing"))
    return None if is_none else owner


def _stem_of(key: str) -> str:
    return re.sub(r"(?:ies|y|s)$", "", key.lower())


def _numbers_given(stem: str) -> re.Pattern[str]:
    """The key with the number that follows it, and others that are joined to that."""
    name = re.escape(stem)
    return re.compile(
        rf"{name}(?<![^\W_]{name})(?:ies|y|s)?(?![^\W_])[\s:=\"'`|*(\[~#$€£]*{_BETWEEN}[#v$€£]?"
        rf"(\d[\w.%]*{_JOINED})"
    )


def _last_place(stem: str, text: str) -> int:
    """Where a key stands last in a text, or -1; a longer one also inside `serverPort`."""
    if len(stem) > _SHORT_STEM:
        return text.rfind(stem)
    whole = re.compile(rf"(?<![^\W_]){re.escape(stem)}s?(?![^\W_])")
    return max((match.start() for match in whole.finditer(text)), default=-1)
