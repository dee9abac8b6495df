"""Cuts texts into pages that give every character once, wherever the pages end."""

from __future__ import annotations

from collections.abc import Sequence

from mcp_compaction.errors import InputError
from mcp_compaction.model import Value


class Page(Value):
    """A page: what it shows of which texts, where the next one begins, and how much is left."""

    pieces: tuple[tuple[int, str], ...]
    after: int | None = None  # None: this is the last page
    left: int = 0


def cut_page(texts: Sequence[str], start: int, most: int) -> Page:
    """So many characters from a start on; an empty text counts as one, so that it is shown once."""
    total = sum(max(1, len(text)) for text in texts)
    if start and start >= total:
        raise InputError(f"cursor {start} is past the end; leave it out to begin again.")
    end = start + max(1, most)
    pieces: list[tuple[int, str]] = []
    begins = 0
    for number, text in enumerate(texts):
        ends = begins + max(1, len(text))
        if begins < end and start < ends:
            pieces.append((number, text[max(0, start - begins) : end - begins]))
        begins = ends
    left = max(0, total - end)
    return Page(pieces=tuple(pieces), after=end if left else None, left=left)
