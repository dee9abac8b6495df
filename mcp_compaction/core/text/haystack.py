"""Looks for thousands of texts in a long one without reading it anew for each."""

from __future__ import annotations

from collections import defaultdict


class Haystack:
    """A long text in which many others are looked for."""

    def __init__(self, text: str) -> None:
        """Note where each word stands among the words of the text."""
        self.text = text
        self._words = text.split()
        self._places: defaultdict[str, list[int]] = defaultdict(list)
        for place, word in enumerate(self._words):
            self._places[word].append(place)

    def holds(self, part: str) -> bool:
        """Whether the text holds that part, sign by sign."""
        # The first and the last word may be the end and the beginning of longer ones.
        inner = part.split()[1:-1]
        return self._has_in_row(inner) and part in self.text

    def _has_in_row(self, words: list[str]) -> bool:
        """Whether these words stand one after another somewhere in the text."""
        if not words:
            return True
        if not all(map(self._places.__contains__, words)):
            return False
        rarest = min(words, key=lambda word: len(self._places[word]))
        before = words.index(rarest)
        return any(
            self._words[place - before : place - before + len(words)] == words
            for place in self._places[rarest]
            if place >= before
        )
