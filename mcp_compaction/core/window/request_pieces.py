"""Reads a request in pieces, and what each is worth to those who have to do what it asks."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from enum import IntEnum
from typing import NamedTuple

from mcp_compaction.core.text import remarks
from mcp_compaction.core.text.patterns import pattern_of, without_open_fences
from mcp_compaction.core.text.sentences import Sentence, spoken_sentences
from mcp_compaction.core.text.shapes import Line, Shape, shaped_lines
from mcp_compaction.core.text.words import cut_at_spaces

_LONGEST_PART = 300  # characters of what is no sentence
_LONGEST_BLOCK = 600  # characters of lines that are shown together or not at all
_LONGEST_JOINT = 20  # characters before or between sentences: blanks, the sign of an item
_ALONE = ("heading", "item", "words")  # shapes that say something without what is around them
_COLONS = (":", "：")
_OPENING_TAG = pattern_of(r"\s*<[A-Za-z][^<>]*>\s*")
_NAMES = pattern_of(r"[\d`\"/_]|\w\.[a-z]\w{0,4}\b")  # a number, a path, a name in quotes


class Worth(IntEnum):
    """How much a piece is worth; what gives way last comes first."""

    KEPT = 0
    ASKED = 1
    NAMED = 2
    TOLD = 3
    CODE = 4
    ASIDE = 5


_WORTHS: dict[Shape, Worth] = {
    "heading": Worth.NAMED,
    "item": Worth.NAMED,
    "words": Worth.TOLD,
    "code": Worth.CODE,
    "fenced": Worth.CODE,
    "row": Worth.CODE,
    "aside": Worth.ASIDE,
}
# At most: what leads to it may be worth less.
_WORTHS_WHEN_LED: dict[Shape, Worth] = {
    **_WORTHS,
    "item": Worth.ASKED,
    "words": Worth.NAMED,
    "code": Worth.NAMED,
    "fenced": Worth.TOLD,
}


class Piece(NamedTuple):
    """A sentence of a request, a line or a block of code, with the blank lines that follow it."""

    text: str
    worth: Worth
    shape: Shape
    stands_alone: bool  # else it says little without the piece before it
    asks: bool  # for something, even where it is worth less than that

    @property
    def leads(self) -> bool:
        """Whether it says little without the piece after it."""
        return self.text.rstrip().endswith(_COLONS) or bool(_OPENING_TAG.fullmatch(self.text))


def read_pieces(text: str, lines: Collection[str]) -> tuple[Piece, ...]:
    """The pieces of a text; together they are the text. The sentences among the given lines are
    kept."""
    sentences = list(spoken_sentences(without_open_fences(text))[::-1])
    reader = _Reader()
    for line in shaped_lines(text):
        own: list[Sentence] = []
        while sentences and sentences[-1].start < line.start + len(line.text):
            own.append(sentences.pop())
        if reader.adds_to_last(line):
            reader.add_to_last(line)
            continue
        reader.begin_line(line)
        for part, sentence in _cut_line(line, own):
            is_kept = sentence is not None and (
                sentence.text in lines or text[sentence.start : sentence.end] in lines
            )
            asks = sentence is not None and remarks.is_asking(sentence)
            reader.add(part, line.shape, is_kept, asks)
    return tuple(reader.pieces)


def _cut_line(line: Line, own: Sequence[Sentence]) -> Iterator[tuple[str, Sentence | None]]:
    """A line in its sentences, and what is none in parts that are not too long."""
    place = 0
    following = [sentence.start - line.start for sentence in own[1:]]
    for sentence, after in zip(own, (*following, len(line.text)), strict=False):
        start, end = sentence.start - line.start, sentence.end - line.start
        if start - place > _LONGEST_JOINT:
            yield from (
                (part, None) for part in cut_at_spaces(line.text[place:start], _LONGEST_PART)
            )
            place = start
        end = after if after - end <= _LONGEST_JOINT else end
        yield line.text[place:end], sentence
        place = end
    if place < len(line.text):
        yield from ((part, None) for part in cut_at_spaces(line.text[place:], _LONGEST_PART))


class _Reader:
    """Gathers pieces line by line: what a colon or an item of a list leads to is worth as much."""

    def __init__(self) -> None:
        self.pieces: list[Piece] = []
        self._lead: Worth | None = None  # of the piece that leads to this line
        self._is_led_by_item = False
        self._is_in_list = False
        self._is_after_blank = False

    def adds_to_last(self, line: Line) -> bool:
        """Whether a line is no piece of its own: a blank one, or one more of a block of code."""
        if not self.pieces:
            return False
        is_fenced = self.pieces[-1].shape == line.shape == "fenced"
        is_short = len(self.pieces[-1].text) + len(line.text) <= _LONGEST_BLOCK
        return is_short and (is_fenced or not line.text.strip())

    def add_to_last(self, line: Line) -> None:
        """Let the last piece end with a line."""
        self.pieces[-1] = self.pieces[-1]._replace(text=self.pieces[-1].text + line.text)
        self._is_after_blank = not line.text.strip()

    def begin_line(self, line: Line) -> None:
        """Tell whether something leads to the next line."""
        is_led = (
            line.shape == "item"
            or line.text[:1].isspace()
            or (bool(self.pieces) and self.pieces[-1].leads)
            or not (self._is_after_blank or self._is_in_list)
        )
        is_next_item = self._is_led_by_item and line.shape == "item"
        if not is_led or is_next_item or line.shape in ("heading", "aside"):
            self._lead = None
        self._is_in_list = line.shape == "item" or (self._is_in_list and is_led)
        self._is_after_blank = False

    def add(self, text: str, shape: Shape, is_kept: bool, asks: bool) -> None:
        """Add a piece of the line."""
        worth = self._worth_of(text, shape, asks)
        stands_alone = worth == Worth.ASKED if self._lead else shape in _ALONE or asks
        if self._lead:
            worth = min(worth, max(self._lead, _WORTHS_WHEN_LED[shape]))
        piece = Piece(text, Worth.KEPT if is_kept else worth, shape, stands_alone, asks)
        self.pieces.append(piece)
        if piece.leads and worth <= Worth.TOLD:
            self._lead = min(worth, Worth.NAMED)
            self._is_led_by_item = self._is_in_list = False
        elif shape == "item" and self._lead is None:
            self._lead = worth
            self._is_led_by_item = True

    def _worth_of(self, text: str, shape: Shape, asks: bool) -> Worth:
        worth = _WORTHS[shape]
        if worth > Worth.TOLD:
            return worth
        if asks:
            return Worth.ASKED
        is_named = _NAMES.search(text) or text.rstrip().endswith(_COLONS)
        return min(worth, Worth.NAMED) if is_named else worth
