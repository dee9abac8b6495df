"""Renders the pinned block: the words of the pins in force, as every view shows them."""

from __future__ import annotations

from collections.abc import Iterable

from mcp_compaction.model import (
    Pin,
)

PINNED_LABEL = "[pinned: rules, open tasks and facts in force, word for word]"


def pinned_block(pins: Iterable[Pin]) -> str:
    """The block that no compaction can eat; empty without pins."""
    lines = [f"{p.ref} {p.kind.replace('_', ' ')}, by {p.author}: {p.text}" for p in pins]
    return "\n".join([PINNED_LABEL, *lines]) if lines else ""
