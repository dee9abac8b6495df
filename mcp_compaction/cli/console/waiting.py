"""Says how far it is to a person who waits, on one line that is written over."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TextIO

Tell = Callable[[str], None]

_CLEAR = "\r\x1b[2K"


def make_teller(*, quiet: bool = False, stream: TextIO | None = None) -> Tell:
    """A function that shows each step to a person; an empty text clears the line."""
    shown = sys.stderr if stream is None else stream
    if quiet or not shown.isatty():
        return lambda _: None

    def say(words: str) -> None:
        shown.write(f"{_CLEAR}  {words}" if words else _CLEAR)
        shown.flush()

    return say
