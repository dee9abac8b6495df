"""Renders the pinned block: the words of the pins in force, as every view shows them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mcp_compaction.model import Pin

PINNED_LABEL = "[pinned: rules, open tasks and facts in force, word for word]"
CONTINUATION = "  | "
"""What stands before each further line of a pin: only a pin's own label begins a line."""


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


def shown_text(text: str) -> str:
    """A pin's text as the block shows it: byte for byte, each further line behind a mark."""
    return CONTINUATION.join(text.splitlines(keepends=True))


WAYS: dict[str, str] = {
    "terminal": "at a terminal",
    "dialog": "in the host's dialog",
    "prompt": "by a prompt",
    "message": "in a message",
    "tool": "by a tool call",
    "command": "by a command without a terminal",
    "program": "by a program",
    "team": "from the team",
    "": "by a way not noted",
}


def way_of(pin: Pin) -> str:
    """The way a pin came, in words: `at a terminal`, `in m17`."""
    return f"in {pin.source}" if pin.channel == "message" and pin.source else WAYS[pin.channel]


def describe_source(pin: Pin) -> str:
    """Where torn words stand, with what governs them there: `from m8 "Things I do not want …"`."""
    if not (pin.source and pin.context):
        return ""
    # Who only lists pins does without all that these load.
    from mcp_compaction.core.limits import LONGEST_LINE
    from mcp_compaction.core.text.injection import defuse
    from mcp_compaction.core.text.words import shorten

    return f'from {pin.source} "{shorten(defuse(pin.context), LONGEST_LINE)}"'


def _line_of(pin: Pin) -> str:
    origin = f", {source}" if (source := describe_source(pin)) else ""
    if pin.used is not None:  # a reader must not take it for what was said just now
        origin = f", kept {pin.at:%Y-%m-%d}" + (
            f" from session {pin.session}" if pin.session else ""
        )
    label = f"p{pin.number} {pin.kind.replace('_', ' ')}, by {pin.author}{origin}"
    return f"{label}: {shown_text(pin.text)}"
