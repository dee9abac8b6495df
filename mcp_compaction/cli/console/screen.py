"""The screen of a person: text on a stream, styled only where that is a terminal."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import TextIO

from mcp_compaction.core.wording import UNSEEN_SIGNS, show_unseen

_BOLD, _DIM, _PLAIN = "\x1b[1m", "\x1b[2m", "\x1b[0m"
_STYLE = re.compile(r"(\x1b\[[012]m)")
_BAR_WIDTH = 24
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

    def highlight(self, text: str, terms: Iterable[str]) -> str:
        """The text with these words in bold, whatever their case and ending."""
        wanted = "|".join(sorted((_pattern_of(t) for t in terms), key=len, reverse=True))
        if not (self.has_color and wanted):
            return text
        return re.sub(wanted, lambda found: self.bold(found.group()), text, flags=re.IGNORECASE)


def _pattern_of(term: str) -> str:
    """A pattern for a word as the search finds it: `deploys` in `deployed`, `port` in `ports`."""
    from mcp_compaction.core.recall.terms import is_name  # a hook does without

    if is_name(term):
        return re.escape(term)
    stem = _ENDING.sub("", term) if len(term) > _SHORT else term
    endings = rf"(?:{_ENDINGS})?" if stem.isalpha() else ""
    return rf"(?<!\w){re.escape(stem)}{endings}(?!\w)"
