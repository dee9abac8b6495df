"""How numbers and names are written for a reader."""

from __future__ import annotations


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
