"""Looks for thousands of texts in a long one without reading it anew for each."""

from __future__ import annotations

from functools import cached_property
from itertools import islice

from mcp_compaction.core.text.patterns import pattern_of

_RUN = pattern_of(r"\S+")


class Haystack:
    """A long text in which many others are looked for."""

    def __init__(self, text: str) -> None:
        """Note which words the text has; where they stand is noted when it is asked for."""
        self.text = text
        self._words = frozenset(text.split())

    def holds(self, part: str) -> bool:
        """Whether the text holds that part, sign by sign."""
        # The first and the last word may be the end and the beginning of longer ones.
        inner = part.split()[1:-1]
        if not inner:
            return part in self._words or part in self.text
        if not self._words.issuperset(inner):
            return False
        rarest = min(inner, key=lambda word: len(self._places[word]))
        before = next(
            run.start() for run in islice(_RUN.finditer(part), 1, None) if run[0] == rarest
        )
        return any(
            self.text.startswith(part, place - before)
            for place in self._places[rarest]
            if place >= before
        )

    @cached_property
    def _places(self) -> dict[str, list[int]]:
        places: dict[str, list[int]] = {word: [] for word in self._words}
        for run in _RUN.finditer(self.text):
            places[run[0]].append(run.start())
        return places
