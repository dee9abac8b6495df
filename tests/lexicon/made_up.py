"""Writes out the examples of the lexicon, which no scanner may take for real secrets."""

from __future__ import annotations

import re

_REPEAT = re.compile(r"\{([^{}*]+)\*(\d+)\}")


def made_up(text: str) -> str:
    """The text with {ab*3} written out as ababab."""
    return _REPEAT.sub(lambda match: match[1] * int(match[2]), text)
