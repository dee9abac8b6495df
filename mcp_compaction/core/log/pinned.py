"""Renders the pinned block: the words of the pins in force, as every view shows them."""

from __future__ import annotations

from collections.abc import Iterable

from mcp_compaction.model import (
    Pin,
)

PINNED_LABEL = "[pinned: rules, open tasks and facts in force, word for word]"


def pinned_block(pins: Iterable[Pin]) -> str:
    """The block that no compaction can eat; empty without pins."""
    lines = [_line_of(pin) for pin in pins]
    return "\n".join([PINNED_LABEL, *lines]) if lines else ""


def is_pinned_block(text: str, pins: Iterable[Pin]) -> bool:
    """Whether a text is the block of some of these pins, and nothing else."""
    lines = sorted((f"\n{_line_of(pin)}" for pin in pins), key=len, reverse=True)
    rest = text.removeprefix(PINNED_LABEL)
    while rest and rest != text:
        line = next((line for line in lines if rest.startswith(line)), None)
        if line is None:
            return False
        rest = rest.removeprefix(line)
    return not rest


def _line_of(pin: Pin) -> str:
    origin = ""
    if pin.used is not None:  # a reader must not take it for what was said just now
        origin = f", kept {pin.at:%Y-%m-%d}" + (
            f" from session {pin.session}" if pin.session else ""
        )
    return f"{pin.ref} {pin.kind.replace('_', ' ')}, by {pin.author}{origin}: {pin.text}"
