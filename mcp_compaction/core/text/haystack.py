"""Looks for thousands of texts in a long one without reading it anew for each."""

from __future__ import annotations

from itertools import pairwise


class Haystack:
    """A long text in which many others are looked for."""

    def __init__(self, text: str) -> None:
        """Note the words of the text, and which of them stand side by side."""
        self.text = text
        words = text.split()
        self._words = frozenset(words)
        self._pairs = frozenset(pairwise(words))

    def holds(self, part: str) -> bool:
        """Whether the text holds that part, sign by sign."""
        # The first and the last word may be the end and the beginning of longer ones.
        inner = part.split()[1:-1]
        return (
            self._words.issuperset(inner)
            and self._pairs.issuperset(pairwise(inner))
            and part in self.text
        )
