"""Tells by its shape what a line of a text is: a heading, an item of a list, code, an aside."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Literal, NamedTuple

from mcp_compaction.core.text import remarks
from mcp_compaction.core.text.patterns import FENCED, pattern_of, without_open_fences
from mcp_compaction.core.text.rows import fold_rows
from mcp_compaction.core.text.sentences import is_speech, spoken_sentences
from mcp_compaction.core.text.signs import shows_sign
from mcp_compaction.lexicon.languages import fill_in_all

Shape = Literal["heading", "item", "words", "code", "fenced", "row", "aside"]

_HEADING = pattern_of(r" {0,3}(#{1,6})[ \t]+(\S.*)|[ \t]*\*\*([^*\n]{1,80})\*\*:?[ \t]*$")
_BELOW_ALL = 7  # the level of a heading in bold letters
_ITEM = pattern_of(r"[ \t]*(?:[-*•+]|\d{1,3}[.)])[ \t]+\S")
_OPENING = pattern_of(r"[ \t]*<([A-Za-z][\w:.-]{0,40})(?: [^<>\n]{0,200})?>")
_CLOSING = pattern_of(r"</([A-Za-z][\w:.-]{0,40})>")


class Line(NamedTuple):
    """A line of a text with its end, where it begins, and what it is."""

    start: int
    text: str
    shape: Shape


def shaped_lines(text: str) -> Iterator[Line]:
    """The lines of a text; together they are the text.

    An aside shows how something is done rather than what is wanted: what stands under a heading
    of examples, or in an element of that name. A row is one of many lines of one template. A fence
    that is never closed is none.
    """
    asides = _Asides(text)
    fences = _Places(FENCED.finditer(without_open_fences(text)))
    rows = fold_rows(text)[::-1]
    start = 0
    for line, said in zip(text.splitlines(keepends=True), text.splitlines(), strict=True):
        is_row = not rows or rows[-1].text != said
        if not is_row:
            rows.pop()
        is_fenced = start + len(line) - len(line.lstrip()) in fences
        if asides.reach(start, line, is_fenced):
            yield Line(start, line, "aside")
        elif is_fenced:
            yield Line(start, line, "fenced")
        else:
            yield Line(start, line, "row" if is_row else _shape_of(said))
        start += len(line)


def _shape_of(line: str) -> Shape:
    if _HEADING.match(line):
        return "heading"
    if _ITEM.match(line):
        return "item"
    is_tag = line.strip().startswith("<") and line.strip().endswith(">")
    return "words" if is_speech(line.strip()) and not is_tag else "code"


class _Places:
    """Stretches of a text, asked for by places that only grow."""

    def __init__(self, found: Iterator[re.Match[str]]) -> None:
        self._found = found
        self._next = next(found, None)

    def __contains__(self, place: int) -> bool:
        while self._next and self._next.end() <= place:
            self._next = next(self._found, None)
        return self._next is not None and self._next.start() <= place


class _Asides:
    """Follows the headings and elements of a text from line to line."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._last_closings = {tag[1]: tag.start() for tag in _CLOSING.finditer(text)}
        self._until = 0  # where the element ends that is an aside
        self._level = 0  # of the heading over an aside; 0 outside
        self._paragraphs = 0  # under that heading
        self._is_after_blank = True

    def reach(self, start: int, line: str, is_fenced: bool) -> bool:
        """Whether the line that begins there, the next one, is part of an aside."""
        if start < self._until:
            return True
        if is_fenced:
            return self._level > 0
        if heading := _HEADING.match(line):
            level = len(heading[1] or "") or _BELOW_ALL
            if self._level == 0 or level <= self._level:
                self._level = level if _names_aside(heading[2] or heading[3]) else 0
                self._paragraphs, self._is_after_blank = 0, True
        elif opening := _OPENING.match(line):
            name = opening[1]
            if start < self._last_closings.get(name, 0) and _names_aside(name):
                self._until = self._text.index(f"</{name}>", start)
                return True
        elif self._level == _BELOW_ALL and self._is_past_aside(line):
            self._level = 0
        return self._level > 0

    def _is_past_aside(self, line: str) -> bool:
        """Whether a line under a heading in bold letters, which nothing but another one ends, asks
        for something behind the first paragraph."""
        self._paragraphs += self._is_after_blank and bool(line.strip())
        self._is_after_blank = not line.strip()
        return self._paragraphs > 1 and any(map(remarks.is_asking, spoken_sentences(line)))


def _names_aside(title: str) -> bool:
    """Whether a heading or the name of an element tells that only examples follow, or how to
    answer and to call tools; one that asks for something does not."""
    words = " ".join(title.replace("_", " ").replace("-", " ").strip("#*: \t").split())
    return bool(_aside_titles().fullmatch(words)) and not shows_sign("request", words)


@cache
def _aside_titles() -> re.Pattern[str]:
    return re.compile(fill_in_all("heading_of_asides"), re.I)
