"""Tells which words of a text mean the same alone.

A sentence is governed by the headings over it, by what a list it stands in begins with, and by the
sentences beside it that point at it: "Never do these", "That was the old rule". Form decides; of
the words of languages only those are known that point, and those that an order begins with.

The texts given here have been through `unify_lines`.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from functools import cache, cached_property, lru_cache
from itertools import pairwise, zip_longest
from typing import Literal, NamedTuple

from mcp_compaction.core.limits import MOST_LOOKED_AT
from mcp_compaction.core.text.all_languages import part_in_all
from mcp_compaction.core.text.patterns import any_of, pattern_of
from mcp_compaction.core.text.words import lower_words, one_line
from mcp_compaction.lexicon.languages import fill_in_all, read_heads

_SIGN = pattern_of(  # of a list, before the words of an item
    r"(?:(?![\"'(\[<@/~$#|`*_¿¡])[^\w\s]{1,3}|\*|"
    r"\(?(?:\d{1,3}|[a-z]|[ivx]{1,4}|[一二三四五六七八九十]{1,3})(?:[.)）]|(?=、)))(?:[ \t]+|、)"
    r"(?:\[[ x~]\][ \t]+)?",
    re.I,
)
_TELLING_SIGN = pattern_of(r"[^\w\s.()）、\[\]~*+–—•‣⁃·∙\u25a0-\u25ff-]")  # ❌, as a word does
_HEADING = pattern_of(r"(#{1,6}) |(\*\*|__)[^*_]+(?:\*\*|__):?$")
_UNDERLINE = pattern_of(r"\s*(?:(=+)|-{3,})\s*$")  # of the heading that is the line before
_LEVEL_OF_BOLD = 7
_STOPS = (".", "!", "?")
_WIDE_STOPS = ("。", "！", "？")
_QUESTIONS = ("?", "？")
_COLONS = (":", "：")
_FEWEST_WORDS, _FEWEST_WIDE = 4, 7  # of a sentence that may say something by itself
_WIDE = pattern_of(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")


class Unit(NamedTuple):
    """A sentence, or a line that is none, in the folded text."""

    text: str
    start: int
    end: int
    block: int
    sign: int = 0  # how long the sign of a list is that stands before it

    @property
    def outer(self) -> int:
        """Where it begins with the sign of its list."""
        return self.start - self.sign


class Block(NamedTuple):
    """A heading, a paragraph or one item of a list: lines that belong together."""

    kind: Literal["heading", "prose", "item"]
    level: int  # of a heading: its rank; else how far it is set in
    units: range


class LaidOutText:
    """A text with its white space folded, read as blocks and units."""

    def __init__(self, text: str) -> None:
        """Read the lines of a text."""
        self._raw = text
        self.units: list[Unit] = []
        self.blocks: list[Block] = []
        self.places: list[int] = []  # of each sign of the folded text, in the text as it was
        self._folded: list[str] = []
        for kind, level, lines in _blocks_of(text):
            self._add_block(kind, level, lines)
        self.folded = " ".join(self._folded)

    def _add_block(
        self, kind: Literal["heading", "prose", "item"], level: int, lines: list[tuple[int, str]]
    ) -> None:
        if self.places:
            self.places.append(self.places[-1] + 1)
        begin = len(self.places)
        for number, (offset, line) in enumerate(lines):
            if number:
                self.places.append(self.places[-1] + 1)
            for count, word in enumerate(re.finditer(r"\S+", line)):
                self.places += [offset + word.start() - 1] if count else []
                self.places += range(offset + word.start(), offset + word.end())
        folded = " ".join(one_line(line) for _, line in lines)
        self._folded.append(folded)
        sign = _SIGN.match(folded) if kind == "item" else None
        sign = None if sign and _TELLING_SIGN.search(sign[0]) else sign
        first = len(self.units)
        number = len(self.blocks)
        for start, end in _sentences_in(folded, sign.end() if sign else 0):
            signed = sign.end() if sign and start == sign.end() else 0
            self.units.append(Unit(folded[start:end], begin + start, begin + end, number, signed))
        self.blocks.append(Block(kind, level, range(first, len(self.units))))

    # Where words stand

    def units_at(self, start: int, end: int) -> range | None:
        """The units that a stretch of the folded text is made of; None: it cuts one."""
        found = self.units_over(start, end)
        if not found:
            return None
        first, last = self.units[found[0]], self.units[found[-1]]
        is_begun = start in (first.start, first.outer)
        # The stop may be left out; without its question mark a question is none.
        bare = last.end - (last.text[-1:] in (".", "!", "。", "！"))
        return found if is_begun and end in (last.end, bare) else None

    def units_over(self, start: int, end: int) -> range:
        """The units that a stretch of the folded text touches."""
        first = bisect_right(self._ends, start)
        return range(first, max(first, bisect_left(self._starts, end)))

    @cached_property
    def _starts(self) -> list[int]:
        return [unit.start for unit in self.units]

    @cached_property
    def _ends(self) -> list[int]:
        return [unit.end for unit in self.units]

    # What governs them

    def whole_of(self, numbers: Iterable[int]) -> frozenset[int]:
        """These units with all that governs them; what only announces, with what it announces.
        Where that is very much, only the beginning of it is looked for."""
        known: set[int] = set()
        blocks: set[int] = set()  # that are known whole
        new = set(numbers)
        most = len(new) + MOST_LOOKED_AT
        while new and len(known) <= most:
            known |= new
            new = {more for number in new for more in self._beside(number, blocks, most)} - known
            if not new and self._leads_on(max(known)):
                following = self.blocks[self.units[max(known)].block + 1]
                new = {following.units[0]}
        return frozenset(known)

    def _leads_on(self, number: int) -> bool:
        """Whether a unit announces the block after its own, and so says nothing alone."""
        place = self.units[number].block
        block = self.blocks[place]
        if number != block.units[-1] or place + 1 == len(self.blocks):
            return False
        return block.kind == "heading" or self._heads[place + 1] == place

    def raw_of(self, numbers: Iterable[int]) -> str:
        """The words of some units as they stand; what stands between them is left out."""
        parts: list[tuple[int, int]] = []
        for number in sorted(numbers):
            unit = self.units[number]
            start, end = self.places[unit.outer], self.places[unit.end - 1] + 1
            if parts and number and parts[-1][1] == self.places[self.units[number - 1].end - 1] + 1:
                parts[-1] = (parts[-1][0], end)
            else:
                parts.append((start, end))
        return "\n".join(self._raw[start:end] for start, end in parts)

    def folded_of(self, numbers: Iterable[int], with_signs: bool = True) -> str:
        """The words of some units on one line."""
        units = [self.units[number] for number in sorted(numbers)]
        return " ".join(
            self.folded[unit.outer if with_signs else unit.start : unit.end] for unit in units
        )

    def _beside(self, number: int, known: set[int], most: int) -> Iterator[int]:
        """The units that govern one, as far as one look tells, and of a block not many more than
        so many."""
        unit = self.units[number]
        block = self.blocks[unit.block]
        if unit.block in known:
            return
        yield from self._heads_of(unit.block)
        yield from self._pointing_at(unit.block)
        reads = self._reads[number]
        unlike = self._unlike_orders[unit.block] - (not reads.stands_beside)
        if unlike or (len(block.units) > 1 and reads.is_bound):
            known.add(unit.block)
            yield from block.units[: most + 1]

    @cached_property
    def _unlike_orders(self) -> list[int]:
        """How many units of each block do not stand beside others as plain orders do."""
        counts = [0] * len(self.blocks)
        for unit, reads in zip(self.units, self._reads, strict=True):
            counts[unit.block] += not reads.stands_beside
        return counts

    @cached_property
    def _reads(self) -> list[_Reading]:
        return [_read(unit.text) for unit in self.units]

    def _heads_of(self, place: int) -> Iterator[int]:
        for heading in self._headings[place]:
            yield from self.blocks[heading].units
        head = self._heads[place]
        if head is not None:
            yield self.blocks[head].units[-1]

    def _pointing_at(self, place: int) -> Iterator[int]:
        """The first words after a block that point back at it."""
        following = place + 1
        if following == len(self.blocks) or self.blocks[following].kind == "heading":
            return
        first = self.blocks[following].units[0]
        reads = self._reads[first]
        if not reads.stands_beside and (reads.leans or reads.points):
            yield first

    @cached_property
    def _headings(self) -> list[tuple[int, ...]]:
        """The headings over each block, the highest first."""
        found: list[tuple[int, ...]] = []
        open_ones: list[int] = []
        for number, block in enumerate(self.blocks):
            if block.kind == "heading":
                while open_ones and self.blocks[open_ones[-1]].level >= block.level:
                    open_ones.pop()
            found.append(tuple(open_ones))
            if block.kind == "heading":
                open_ones.append(number)
        return found

    @cached_property
    def _heads(self) -> list[int | None]:
        """The block that each one hangs on: what its list begins with, or what points at it."""
        found: list[int | None] = []
        lists: list[int] = []  # the items that one further in would belong to
        list_head: int | None = None
        for number, block in enumerate(self.blocks):
            if block.kind != "item":
                lists = []
                found.append(self._governor_of(number, found) if block.kind == "prose" else None)
                continue
            if not lists:
                list_head = number - 1 if number else None
                if list_head is not None and self.blocks[list_head].kind == "heading":
                    list_head = None
            while lists and self.blocks[lists[-1]].level >= block.level:
                lists.pop()
            found.append(lists[-1] if lists else list_head)
            lists.append(number)
        return found

    def _governor_of(self, place: int, known: list[int | None]) -> int | None:
        """The block before a paragraph whose last words point at it; one that points at a line
        points at the lines after it, too."""
        before = self.blocks[place - 1] if place else None
        if before is None or before.kind == "heading":
            return None
        is_listed = before.kind == "item" and not self._stands_alone(place - 1)
        if _points_on(self.units[before.units[-1]].text, is_listed):
            return place - 1
        return known[place - 1] if before.kind == "prose" and len(before.units) == 1 else None

    def _stands_alone(self, place: int) -> bool:
        """Whether an item has none before it in its list, and so may be a heading by number."""
        return place == 0 or self.blocks[place - 1].kind != "item"


# Blocks and sentences


def fold_lines(text: str) -> str:
    """The lines of a text that have words, on one line."""
    return " ".join(one_line(line) for line in text.split("\n") if _has_words(line))


def is_laid_out_as(words: str, text: str) -> bool:
    """Whether some words of a text have a blank line only where the text ends a line, or behind a
    stop, and no line of mere signs ("<!--") that the text does not have."""
    lines, others = _lines_in(words), _lines_in(text)
    bare = {line for line in lines if line and not _has_words(line)}
    ends = {line.split()[-1] for line in others if line}
    return bare <= set(others) and all(
        _is_closed(line) or line.split()[-1] in ends
        for line, below in pairwise(lines)
        if line and not below
    )


def _lines_in(text: str) -> list[str]:
    return [line.strip() for line in text.strip().split("\n")]


def _has_words(line: str) -> bool:
    return any(sign.isalnum() or _is_picture(sign) for sign in line)


def _is_closed(line: str) -> bool:
    return line.rstrip().endswith((*_STOPS, *_WIDE_STOPS))


def _is_picture(sign: str) -> bool:
    """Whether a sign says something without a letter: ❌, ≠; lines and boxes do not."""
    return (
        not sign.isascii()
        and not "\u2500" <= sign <= "\u25ff"
        and unicodedata.category(sign) in ("So", "Sm")
    )


def _blocks_of(
    text: str,
) -> Iterator[tuple[Literal["heading", "prose", "item"], int, list[tuple[int, str]]]]:
    """The blocks of a text: kind, level, and the lines with where they begin."""
    kind: Literal["heading", "prose", "item"] = "prose"
    level, lines = 0, list[tuple[int, str]]()
    offset = 0
    raw = text.split("\n")
    for line, below in zip_longest(raw, raw[1:], fillvalue=""):
        words = line.strip()
        underline = _UNDERLINE.match(below) if not (lines or _is_closed(words)) else None
        heading = _HEADING.match(words) or underline
        is_item = not heading and _SIGN.match(words) is not None
        has_words = _has_words(words)
        indent = len(line) - len(line.lstrip())
        # What is set in under an open line hangs on it as an item does.
        hangs = kind == "prose" and bool(lines) and indent > level + 1
        is_item = is_item or (hangs and not _is_closed(lines[-1][1]))
        if lines and (not has_words or heading or is_item or kind == "heading"):
            yield kind, level, lines
            lines = []
        if has_words:
            if not lines:
                level = indent
                kind = "heading" if heading else "item" if is_item else "prose"
                if heading:
                    level = len(heading[1] or "") or _LEVEL_OF_BOLD
                if underline:
                    level = 1 if underline[1] else 2
            lines.append((offset, line))
        offset += len(line) + 1
    if lines:
        yield kind, level, lines


@cache
def _abbreviated() -> re.Pattern[str]:
    return any_of(rf"(?:^|[\s(])(?:\w|{fill_in_all('possible_abbreviations')})\.$")


_STOP = pattern_of(r"[.!?](?= |$)|[。！？]")


def _sentences_in(folded: str, start: int) -> Iterator[tuple[int, int]]:
    for stop in _STOP.finditer(folded, start):
        end = stop.end()
        if _abbreviated().search(folded, max(0, end - 12), end):
            continue
        following = folded[end : end + 1]
        if following in (*_STOPS, *_WIDE_STOPS):
            continue
        yield start, end
        start = end + (following == " ")
    if start < len(folded):
        yield start, len(folded)


# What points


def _is_fragment(text: str) -> bool:
    wide = len(_WIDE.findall(text))
    return wide < _FEWEST_WIDE if wide else len(text.split()) < _FEWEST_WORDS


def _stands_beside(text: str) -> bool:
    """Whether a sentence surely leaves those beside it as they are: an order, a greeting."""
    if part_in_all("greets").match(text):
        return True
    return (
        not text.endswith((*_QUESTIONS, *_COLONS))
        and not _says_nothing(text)
        and part_in_all("stands_beside").match(text) is not None
        and part_in_all("points").search(text) is None
    )


class _Reading(NamedTuple):
    """What the words of a unit tell of those beside it."""

    stands_beside: bool
    leans: bool
    points: bool
    is_fragment: bool

    @property
    def is_bound(self) -> bool:
        """Whether it needs those beside it to be understood."""
        return self.leans or self.points or (self.is_fragment and not self.stands_beside)


@lru_cache(maxsize=1_024)
def _read(text: str) -> _Reading:
    points = part_in_all("points").search(text) is not None
    leans, is_fragment = _leans(text), _is_fragment(text)
    points_on = text.endswith(_COLONS) or part_in_all("points_on").search(text) is not None
    turns = points or leans or is_fragment or points_on
    stands_beside = (_stands_beside(text) or not turns) and not _BEGUN_LIST.match(text)
    return _Reading(stands_beside, leans, points, is_fragment)


_BEGUN_LIST = pattern_of(r"(?:\S+ ){0,2}\S+[:：] \S|(?:\S+ ){0,2}\S+：")  # "Forbidden: do this."


def _says_nothing(text: str) -> bool:
    """Whether a few words only wait for others: "Do not", "Never, ever"."""
    words = lower_words(text)
    return len(words) < _FEWEST_WORDS and all(word in _function_words() for word in words)


@cache
def _function_words() -> frozenset[str]:
    return frozenset(word for head in read_heads() for word in head.function_words)


def _leans(text: str) -> bool:
    """Whether a sentence begins as one that goes on from the one before."""
    return part_in_all("leans").match(text) is not None


def _points_on(text: str, is_item: bool) -> bool:
    """Whether the last words before a paragraph may be about the paragraph."""
    if text.endswith(_COLONS):
        return True
    if is_item or _stands_beside(text):
        return False
    is_open = not text.endswith((*_STOPS, *_WIDE_STOPS))
    return is_open or _is_fragment(text) or part_in_all("points_on").search(text) is not None
