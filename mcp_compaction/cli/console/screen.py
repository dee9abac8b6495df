"""The screen of a person: text on a stream, styled only where that is a terminal.

Standard library only, since a hook writes to one.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from time import monotonic
from typing import TYPE_CHECKING, TextIO

from mcp_compaction.core.wording import UNSEEN_SIGNS, kilo, show_unseen

if TYPE_CHECKING:
    from mcp_compaction.core.window.fill import Fill

Tell = Callable[[str], None]

_CLEAR = "\r\x1b[2K"
_BOLD, _DIM, _PLAIN = "\x1b[1m", "\x1b[2m", "\x1b[0m"
_STYLE = re.compile(r"(\x1b\[[012]m)")
_BAR_WIDTH = 24
_BETWEEN_LINES = 60.0  # seconds
_ENDINGS = "e|s|es|ed|d|ing|er|ers|ly"
_ENDING = re.compile(rf"(?:{_ENDINGS})$", re.IGNORECASE)
_SHORT = 4  # letters; what is shorter has no ending to take off


class Screen:
    """An output stream that knows whether a person or a program reads it."""

    def __init__(self, stream: TextIO, environ: Mapping[str, str]) -> None:
        self._stream = stream
        self.is_terminal = stream.isatty()
        self.has_color = (
            self.is_terminal and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"
        )

    def say(self, text: str = "") -> None:
        """Write a text and end the line; only our own styles steer the terminal."""
        parts = _STYLE.split(text) if self.has_color else [text]
        parts[::2] = map(show_unseen, parts[::2])  # between them stand the styles
        safe = "".join(parts)
        encoding = self._stream.encoding or "utf-8"
        self._stream.write(safe.encode(encoding, "replace").decode(encoding) + "\n")

    def say_rows(self, rows: Sequence[Sequence[str]]) -> None:
        """Write rows of cells, each column as wide as its widest cell."""
        for line in align_columns(rows):
            self.say(line)

    def say_table(self, rows: Sequence[Sequence[str]], heading: str = "") -> None:
        """Write rows with their heading and the names of their columns; nothing where only these
        are there."""
        if len(rows) > 1:
            first, *rest = align_columns(rows)
            lines = [*[self.bold(heading)] * bool(heading), self.dim(f"  {first}")]
            self.say("\n".join([*lines, *(f"  {line}" for line in rest)]))

    def flush(self) -> None:
        """Let what was said be seen now."""
        self._stream.flush()

    def write_bytes(self, data: bytes) -> None:
        """Write bytes as they are."""
        self._stream.flush()
        self._stream.buffer.write(data)
        self._stream.buffer.flush()

    def write_json(self, value: object) -> None:
        """Write one JSON document in UTF-8."""
        indent = 2 if self.is_terminal else None
        text = json.dumps(value, ensure_ascii=False, indent=indent)
        text = UNSEEN_SIGNS.sub(lambda found: json.dumps(found.group())[1:-1], text)
        self.write_bytes(text.encode("utf-8", "backslashreplace") + b"\n")

    def bold(self, text: str) -> str:
        """The text, stronger where the terminal can."""
        return f"{_BOLD}{text}{_PLAIN}" if self.has_color else text

    def dim(self, text: str) -> str:
        """The text, weaker where the terminal can."""
        return f"{_DIM}{text}{_PLAIN}" if self.has_color else text

    def bar(self, percent: float) -> str:
        """A bar for a terminal, with a space after it; nothing elsewhere."""
        if not self.is_terminal:
            return ""
        full = min(_BAR_WIDTH, round(_BAR_WIDTH * percent / 100))
        return f"[{'#' * full}{'-' * (_BAR_WIDTH - full)}] "

    def fill_line(self, fill: Fill) -> str:
        """How full a window is: `[######------] 61 % of 200k tokens (exact), 78k left`."""
        full = f"{self.bar(fill.percent)}{self.bold(f'{fill.percent:.0f} %')}"
        size = f"{kilo(fill.window)} tokens ({fill.precision}), {kilo(fill.room)} left"
        return f"{full} of {size}"

    def highlight(self, text: str, terms: Iterable[str]) -> str:
        """The text with these words in bold, whatever their case and ending."""
        wanted = "|".join(sorted((_pattern_of(t) for t in terms), key=len, reverse=True))
        if not (self.has_color and wanted):
            return text
        return re.sub(wanted, lambda found: self.bold(found.group()), text, flags=re.IGNORECASE)


def align_columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of cells as lines, each column as wide as its widest cell."""
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    return [
        "  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def make_teller(
    *, quiet: bool = False, stream: TextIO | None = None, clock: Callable[[], float] = monotonic
) -> Tell:
    """A function that shows each step to a person who waits, on one line that is written over; an
    empty text clears it. Where nobody sees lines change, it says every minute what is done."""
    shown = sys.stderr if stream is None else stream
    if quiet:
        return lambda _: None
    last = clock()

    def say_now_and_then(words: str) -> None:
        nonlocal last
        if words and clock() - last >= _BETWEEN_LINES:
            last = clock()
            shown.write(f"{words}\n")
            shown.flush()

    if not shown.isatty():
        return say_now_and_then

    def say(words: str) -> None:
        shown.write(f"{_CLEAR}  {words}" if words else _CLEAR)
        shown.flush()

    return say


def _pattern_of(term: str) -> str:
    """A pattern for a word as the search finds it: `deploys` in `deployed`, `port` in `ports`."""
    from mcp_compaction.core.recall.terms import is_name  # a hook does without

    if is_name(term):
        return re.escape(term)
    stem = _ENDING.sub("", term) if len(term) > _SHORT else term
    endings = rf"(?:{_ENDINGS})?" if stem.isalpha() else ""
    return rf"(?<!\w){re.escape(stem)}{endings}(?!\w)"
