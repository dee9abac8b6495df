"""Finds what a host put into a text: reminders, command output, environment, continuations.

The kinds are data, in `lexicon/furniture.toml`. One pass over any text is linear.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from mcp_compaction.core.text.patterns import FENCED, pattern_of
from mcp_compaction.core.text.reading import read_once
from mcp_compaction.lexicon.furniture import Furniture, known_furniture

_BLANKS = pattern_of(r"[ \t\r]*+")
_NOWHERE = -1


class FurnitureRun(NamedTuple):
    """Where a run of furniture begins and ends."""

    start: int
    end: int


@read_once
def furniture_in(text: str) -> tuple[FurnitureRun, ...]:
    """The stretches of a text that a host put there, in order; what a code fence shows is none."""
    if not _may_hold_furniture(text):
        return ()
    reader = _Reader(text)
    found: list[FurnitureRun] = []
    place = end = 0
    is_speech_before = False
    while opening := _openings().search(text, place):
        start = opening.end("before")
        is_speech_before = is_speech_before or bool(text[end:start].strip())
        if opening["fence"]:
            fence = FENCED.match(text, start)
            place = fence.end() if fence else opening.end()
            continue
        place, is_run = reader.follow_run(start, is_speech_before)
        if is_run:
            end = place
            found += _around(start, end, reader.spoken)
    return tuple(found)


def _around(start: int, end: int, spoken: list[FurnitureRun]) -> Iterator[FurnitureRun]:
    """The furniture of a run, around what a user has typed in it."""
    for words in spoken:
        yield FurnitureRun(start, words.start)
        start = words.end
    yield FurnitureRun(start, end)


def without_furniture(text: str) -> str:
    """A text without what a host put into it; all else stays as it is."""
    found = furniture_in(text)
    if not found:
        return text
    borders = (0, *(place for stretch in found for place in stretch), len(text))
    return "".join(text[a:b] for a, b in zip(borders[::2], borders[1::2], strict=True))


def text_to_compare(text: str) -> str:
    """A text by which two wordings of a message are compared: without furniture.

    Of a text that is all furniture only its kinds count, where the host writes them anew with each
    request; else it counts as it is.
    """
    found = furniture_in(text)
    if not found:
        return text
    said = without_furniture(text).strip()
    if said:
        return said
    kinds = [kind for stretch in found for kind in _kinds_in(text, stretch)]
    return " ".join(k.begins for k in kinds) if all(k.changes for k in kinds) else text


@cache
def _changing() -> re.Pattern[str]:
    begins = "|".join(re.escape(k.begins) for k in known_furniture() if k.changes)
    return re.compile(rf"(?:{begins})(?: (?:{begins}))*")


def is_all_furniture(text: str) -> bool:
    """Whether a text to compare names only kinds of furniture that change with each request."""
    return bool(_changing().fullmatch(text))


def _kinds_in(text: str, stretch: FurnitureRun) -> Iterator[Furniture]:
    place = stretch.start
    while place < stretch.end and (opening := _beginning().match(text, place)):
        kind = _kinds()[opening[0]]
        yield kind
        if not kind.ends:
            return
        end = text.index(kind.ends, opening.end()) + len(kind.ends)
        blanks = _BLANKS.match(text, end)
        place = blanks.end() if blanks else end


def without_furniture_behind(result: str) -> str:
    """A tool's result without what a host put behind it."""
    kept = len(result)
    end = _end_of_words(result, kept)
    while kind := next((k for k in _behind_results() if result.endswith(k.ends, 0, end)), None):
        start = result.rfind(kind.begins, 0, end)
        line = result.rfind("\n", 0, max(start, 0)) + 1
        if start < 0 or result[line:start].strip():
            break
        kept = end = _end_of_words(result, start)
    return result[:kept]


def _end_of_words(text: str, end: int) -> int:
    while end and text[end - 1].isspace():
        end -= 1
    return end


class _Reader:
    """Follows runs of furniture through a text, and looks for each ending once."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._endings: dict[str, int] = {}  # where each ending stands next
        self.spoken: list[FurnitureRun] = []  # what a user has typed in the last run

    def follow_run(self, start: int, is_speech_before: bool) -> tuple[int, bool]:
        """Where the furniture that begins here ends, and whether all of it is furniture: only a
        line end may follow, and what has no ending of its own stands behind no speech."""
        end = start
        self.spoken = []
        while opening := _beginning().match(self._text, end):
            kind = _kinds()[opening[0]]
            if not kind.ends:
                return (opening.end(), False) if is_speech_before else (len(self._text), True)
            closing = self._find_ending(kind.ends, opening.end())
            if closing == _NOWHERE:
                return opening.end(), False
            if kind.spoken and self._text[opening.end() : closing].strip():
                self.spoken.append(FurnitureRun(opening.end(), closing))
            end = closing + len(kind.ends)
            blanks = _BLANKS.match(self._text, end)
            after = blanks.end() if blanks else end
            if self._text[after : after + 1] in ("", "\n"):
                return end, True
            end = after
        return end, False

    def _find_ending(self, ending: str, start: int) -> int:
        known = self._endings.get(ending, 0)
        if known != _NOWHERE and known < start:
            self._endings[ending] = self._text.find(ending, start)
        return self._endings.get(ending, known)


def _may_hold_furniture(text: str) -> bool:
    """Whether a text holds the beginning of some furniture: a cheap look that spares most texts."""
    tags, phrases = _gates()
    return ("<" in text and any(tag in text for tag in tags)) or any(
        phrase in text for phrase in phrases
    )


@cache
def _gates() -> tuple[tuple[str, ...], tuple[str, ...]]:
    tags = tuple(begins for begins in _kinds() if begins.startswith("<"))
    return tags, tuple(begins for begins in _kinds() if not begins.startswith("<"))


@cache
def _kinds() -> dict[str, Furniture]:
    return {kind.begins: kind for kind in known_furniture()}


@cache
def _beginning() -> re.Pattern[str]:
    return re.compile("|".join(map(re.escape, _kinds())))


@cache
def _openings() -> re.Pattern[str]:
    """Beginnings of furniture and of code fences, at the start of a line."""
    return re.compile(rf"(?P<before>^[ \t]*+)(?:(?P<fence>```|~~~)|{_beginning().pattern})", re.M)


@cache
def _behind_results() -> tuple[Furniture, ...]:
    return tuple(kind for kind in known_furniture() if kind.in_results)
