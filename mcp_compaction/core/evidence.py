"""Tells which numbers, names and quotations of a line do not stand in its source."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import MAXYEAR, MINYEAR, UTC, datetime, timedelta
from functools import cached_property
from itertools import islice

from mcp_compaction.core.identifiers import find
from mcp_compaction.core.patterns import any_of, word_set
from mcp_compaction.core.when import Stretch, named_days

_FEWEST_QUOTED = 3  # words; less may be a term that is only set apart
_LARGEST_COUNT = 20  # a summarizer counts so far by itself
_LONGEST_NUMBER = 15  # digits; what is longer is an id
_LONGEST_KEY = 32
_STEM = 4  # letters by which a key is known in other words: "times out" for `timeout`
_ROUGH = 0.1  # "about 1,200" may be 1,187
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Evidence:
    """The texts that a draft may speak of, and when each was said."""

    said: Sequence[tuple[str, datetime | None]]

    @cached_property
    def texts(self) -> tuple[tuple[str, datetime | None], ...]:
        """The texts, each with a time that can be compared."""
        return tuple((text, _known_time(at)) for text, at in self.said)

    @cached_property
    def text(self) -> str:
        """All of it in lower case, with one way to write quotes, dashes, slashes and spaces."""
        return "\n".join(_folded(text).lower() for text, _ in self.texts)

    @cached_property
    def words(self) -> str:
        """Its words alone."""
        return f" {_words(self.text)} "

    @cached_property
    def letters(self) -> str:
        """Its letters and digits alone, so that `rateLimit` stands in "rate limit"."""
        return _joined(self.text)

    @cached_property
    def numbers(self) -> list[float]:
        """Its numbers in order, those up to twenty also where they are written as words."""
        found = {float(match) for match in _SOURCE_NUMBER.findall(_ungrouped(self.text))}
        spelled = {n for n, word in enumerate(_SPELLED) if f" {word} " in self.words}
        clock = {part for _, at in self.texts if at for part in (at.year, at.hour, at.minute)}
        return sorted(found | spelled | clock)

    @cached_property
    def days(self) -> tuple[Stretch, ...]:
        """The days it names, and those on which it was said."""
        return tuple(
            day
            for text, at in self.texts
            for day in (*_days(_dated_lines(text), at), *([_day_of(at)] if at else []))
        )

    def missing(self, line: str) -> tuple[str, ...]:
        """What the line names and the source does not."""
        said = _folded(line)
        missing: list[str] = []
        for quoted in _QUOTED.finditer(said):
            is_held = self._holds_quotation(quoted[0])
            is_term = quoted[0][0] != "`" and len(_words(quoted[0]).split()) < _FEWEST_QUOTED
            missing += [] if is_held or is_term else [quoted[0]]
            said = said.replace(quoted[0], f" {quoted[0][1:-1]} " if is_term else " ")
        for day in _days(said, self._newest):
            if _DATE.search(day.words):
                missing += [] if self._holds_day(day) else [day.words]
                said = said.replace(day.words, " ")
        return (*missing, *self._missing_names(_REF.sub(" ", said)))

    def _holds_quotation(self, quoted: str) -> bool:
        inner = quoted[1:-1].lower()
        pieces = [_words(piece) for piece in re.split(r"\.\.\.|\[[^\]]*\]", inner)]
        if all(f" {piece} " in self.words for piece in pieces if piece):
            return True
        is_code = quoted[0] == "`"
        return is_code and all(f" {word} " in self.words for word in _words(inner).split())

    @cached_property
    def _newest(self) -> datetime | None:
        return max((at for _, at in self.texts if at is not None), default=None)

    def _holds_day(self, day: Stretch) -> bool:
        if _YEAR.search(day.words):
            return any(day.begin < other.end and other.begin < day.end for other in self.days)
        # Without a year it may be of any.
        return any(f"{day.begin:%m-%d}" in _days_of(other) for other in self.days)

    def _missing_names(self, said: str) -> Iterator[str]:
        found = (f.text for f in find(said) if f.kind in ("file", "url", "id"))
        names = [name for name in found if not name.isdigit()]
        names += _NAME.findall(said)
        for name in dict.fromkeys(names):
            if not self.holds_name(name):
                yield name
            said = said.replace(name, " ")
        for match in _NUMBER.finditer(_ungrouped(said)):
            number = _number(match)
            if not (number.is_count or self.holds_number(number)):
                yield f"{number.key}{match[0]}".strip(" .,:;")

    def holds_name(self, name: str) -> bool:
        """Whether a path, a URL, an id or a name in code stands here, or a path's last parts."""
        bare = _NO_NAME.sub("", _folded(name).lower())
        if not bare or _joined(bare) in _COMMON_NAMES or _is_in(bare, self.text):
            return True
        if _HEX.fullmatch(bare):  # a hash is known by its first digits
            return bool(re.search(rf"(?<![0-9a-z]){bare}", self.text))
        if len(_joined(bare)) > 3 and _is_joined_in(_joined(bare), self.letters):
            return True
        parts = [part for part in re.split(r"[/.:]+", bare) if part]
        return len(parts) > 1 and "/" in bare and all(_is_in(part, self.text) for part in parts)

    def holds_number(self, number: Number) -> bool:
        """Whether a number stands here, also rounded or in another unit; one that could stand
        anywhere has to stand near its key."""
        values = [number.value * factor for factor in number.factors]
        if not any(self._is_near(value, number.margin * value) for value in values):
            return False
        key = number.key.rstrip(" .:=").lower()
        if not key or number.value > _LARGEST_COUNT:
            return True
        beside = [place for place, (text, _) in enumerate(self.texts) if key in text.lower()]
        if not beside:
            return not number.key.endswith("=") or key[:_STEM] in self.text
        near = [
            self.texts[p]
            for place in beside
            for p in (place - 1, place, place + 1)
            if 0 <= p < len(self.texts)
        ]
        return Evidence(near)._is_near(number.value, 0.0)

    def _is_near(self, value: float, margin: float) -> bool:
        place = bisect_left(self.numbers, value - margin - 1e-9)
        return place < len(self.numbers) and self.numbers[place] <= value + margin + 1e-9


# How texts are compared

_FOLDS = str.maketrans(
    {**dict.fromkeys("“”„«»「」", '"'), **dict.fromkeys("‘’", "'"), "–": "-", "—": " - ", "\\": "/"}
)
_NO_WORD = re.compile(r"[^\w]+|_+")
_GROUPED = re.compile(r"(?<=\d)[,_'](?=\d{3}(?!\d))")
_QUOTED = re.compile(r"\"[^\"]{4,}\"|`[^`]+`")
_SPELLED = re.findall(
    r"\w+",
    """
zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen
sixteen seventeen eighteen nineteen twenty
""",
)


def _folded(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).translate(_FOLDS).split())


def _words(text: str) -> str:
    return _NO_WORD.sub(" ", text).strip()


def _joined(text: str) -> str:
    return _NO_WORD.sub("", text)


def _ungrouped(text: str) -> str:
    return _GROUPED.sub("", text)


def _is_in(name: str, text: str) -> bool:
    return name in text and bool(re.search(rf"(?<![^\W_])v?{re.escape(name)}(?![^\W_])", text))


def _is_joined_in(name: str, letters: str) -> bool:
    end = r"(?!\d)" if name[-1].isdigit() else ""
    return name in letters and bool(re.search(name + end, letters))


# Names

_NO_NAME = re.compile(r"^(?:https?://|[./~]+|v(?=\d))|[/.,:;]+$|\(\)$")
_REF = re.compile(r"(?<![\w/.-])[mdpc]\d{1,9}(?:(?:\.\.|-)[mdpc]?\d{1,9})?(?![\w/])")
_HEX = re.compile(r"(?=[0-9a-f]*\d)[0-9a-f]{7,64}")
_NAME = re.compile(
    r"(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+"  # an address
    r"|(?<!\w)--?[a-z][\w-]*(?:=\S+)?"  # a flag
    r"|(?<![\w.])(?:[A-Za-z]\w*\.)+[A-Za-z]\w*\(\)|\b[A-Za-z]\w*_\w+|\b[a-z]+(?:[A-Z][a-z0-9]*)+\b"
    r"|\bv?\d+(?:\.\d+){2,}\b"  # a version, an address of a host
    r"|\b(?=\w*\d)(?=\w*[A-Za-z]\w*[A-Za-z]\w*[A-Za-z])[A-Za-z0-9]+\b"
    rf"|\b\d{{{_LONGEST_NUMBER + 1},}}\b"
)
# Standards and shorthands that a summarizer may know by itself.
_COMMON_NAMES = word_set(
    """
utf8 utf16 ascii sha1 sha256 sha512 md5 base64 iso8601 rfc3339 http2 oauth2 ipv4 ipv6 x86 x8664
arm64 s3 ec2 k8s i18n l10n a11y es6 python2 python3 mp3 mp4 2fa nodejs nextjs vuejs
"""
)

# Numbers


@dataclass(frozen=True)
class Number:
    """A number of a line, and how far it may stand from one of the source."""

    value: float
    margin: float = 0.0  # as a share of the value
    factors: tuple[float, ...] = (1.0,)
    is_count: bool = False  # a summarizer may have counted it itself
    key: str = ""  # what it is the number of, as it stands before it


_KEY = re.compile(
    r"(?:\b((?:ports?|versions?|pid|lines?|issues?|prs?|tickets?|codes?|status|timeout|limits?"
    r"|threshold|retries|builds?|releases?|budget|price|cost|max(?:imum)?|min(?:imum)?|level|ids?"
    r"|size|rate|quota|priority|replicas|workers|ttl|depth|revision|rev|seed|uid)"
    r"(?: |: ?))(?:(?:is|was|of|to|number|code) )?|(\b\w+=))?[#v$€£]?$",
    re.I,
)
_ROUGHLY = any_of(r"(?:about|around|roughly|nearly|almost|over|under|circa|ca\.|[~≈<>]) ?[$€£]?$")
_SOURCE_NUMBER = re.compile(
    r"(?<![^\W_])(?<!\d\.)[^\W\d_]*(\d{1,15}(?:\.\d{1,9})?)(?=[^\W\d_]{0,3}(?![^\W_]))"
)
_NUMBER = re.compile(
    r"(?<![^\W_])(?<!\d\.)(v)?(\d{1,15})(\.\d{1,9})?"
    r"(?: ?(%|(?:ms|s|sec|min|h|[kKMGT]i?B|[kKMB])\b))?(?![^\W\d_])(?!\.\d)"
)
_SIZES = {"k": 1e3, "K": 1e3, "M": 1e6, "B": 1e9}
_TIMES = (1.0, 1e3, 1e-3, 60.0, 1 / 60, 3_600.0, 1 / 3_600)
_BYTES = (1.0, 1e3, 1e-3, 1e6, 1e-6, 1_024.0, 1 / 1_024, 1_024.0**2, 1_024.0**-2)


def _number(match: re.Match[str]) -> Number:
    version, whole, decimals, unit = match.groups()
    value = float(whole + (decimals or ""))
    before = match.string[max(0, match.start() - _LONGEST_KEY) : match.start()]
    key = _KEY.search(before)
    if version or (key and key[0]):
        named = (key[1] or key[2] or "") if key else ""
        return Number(value, factors=_factors(unit), key=named)
    last_place = 0.5 / 10 ** len((decimals or ".")[1:])
    is_exact = not decimals and not unit
    margin = 0.0 if is_exact or not value else last_place / value
    if _ROUGHLY.search(before):
        margin = max(margin, _ROUGH)
    return Number(value, margin, _factors(unit), is_exact and value <= _LARGEST_COUNT)


def _factors(unit: str | None) -> tuple[float, ...]:
    if unit is None:
        return (1.0,)
    if unit in _SIZES:
        return (_SIZES[unit], 1.0)
    if unit == "%":
        return (1.0, 0.01)
    return _TIMES if unit in ("ms", "s", "sec", "min", "h") else _BYTES


# Dates

_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_DATE = re.compile(rf"\d{{4}}-\d\d-\d\d|\b{_MONTH} \d|\d(?:st|nd|rd|th)?(?: of)? {_MONTH}", re.I)


_YEAR = re.compile(r"\d{4}")
_MOST_DAYS = 31
_DAY_WORD = re.compile(
    rf"\d{{4}}-\d\d|\d[./]\d\d?[./]\d|\b{_MONTH} ?\d|\d[a-z ]{{0,6}}{_MONTH}|day|tomorrow"
    r"|\bago\b|night|\b(?:last|next|this) (?:week|month|year)",
    re.I,
)
_LONGEST_LINE, _MOST_LINES = 500, 100  # characters, lines


def _dated_lines(text: str) -> str:
    """The lines that may name a day: to read all of a long text for days takes long."""
    lines = (line[:_LONGEST_LINE] for line in text.splitlines() if _DAY_WORD.search(line))
    return "\n".join(islice(lines, _MOST_LINES))


def _known_time(at: datetime | None) -> datetime | None:
    if at is None or not MINYEAR < at.year < MAXYEAR:
        return None
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def _day_of(at: datetime) -> Stretch:
    begin = at.replace(hour=0, minute=0, second=0, microsecond=0)
    return Stretch(begin, begin + timedelta(days=1), "")


def _days_of(stretch: Stretch) -> set[str]:
    number = min(_MOST_DAYS, max(1, (stretch.end - stretch.begin).days))
    return {f"{stretch.begin + timedelta(days=n):%m-%d}" for n in range(number)}


def _days(text: str, at: datetime | None) -> Iterable[Stretch]:
    return named_days(text, at or _LONG_AGO)
