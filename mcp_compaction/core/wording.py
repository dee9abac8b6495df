"""How numbers, names and the words of others are written for a reader."""

from __future__ import annotations

import re
from typing import Final

UNSEEN_SIGNS: Final = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff"
    r"\ufff9-\ufffb\U000e0000-\U000e007f]"
)
"""Signs that no reader sees: they steer a terminal, or turn the direction in which words stand."""


def show_unseen(text: str) -> str:
    """A text of whoever, for a screen or a page: the unseen signs in it are written out."""
    codes = {sign: ord(sign) for sign in UNSEEN_SIGNS.findall(text)}
    for sign, code in codes.items():
        text = text.replace(sign, chr(0x2400 + code) if code < 0x20 else f"\\u{{{code:x}}}")
    return text


def escape(text: str) -> str:
    """A text of whoever, for a page of HTML."""
    from html import escape as escape_markup  # a hook does without

    return escape_markup(show_unseen(text))


def kilo(tokens: int) -> str:
    """A number of tokens as a person reads it: 812, 6.1k, 148k, 1.05M."""
    if tokens < 1_000:
        return str(tokens)
    if tokens >= 999_500:
        return f"{tokens / 1_000_000:.3g}M"
    return f"{tokens / 1_000:.1f}k" if tokens < 10_000 else f"{tokens / 1_000:.0f}k"


def plural(number: int, noun: str) -> str:
    """A number of things: 1 line, 2 lines, 1,200 lines."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
