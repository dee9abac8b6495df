"""Tells whether sentences are still told in a text, be it in other words."""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from itertools import chain

from mcp_compaction.core.limits import MOST_LOOKED_AT
from mcp_compaction.core.text.words import one_line, telling_words

_MOST_OF_IT = 0.6  # of a sentence's telling words, those that one line has to share


class Retelling:
    """A text by its lines, in which sentences are looked for."""

    def __init__(self, text: str) -> None:
        """Keep the text; its words are read when a sentence does not stand in it as it is."""
        self._lines = text.split("\n")
        self._folded = one_line(text)

    def tells(self, sentence: str) -> bool:
        """Whether a sentence stands in the text, or one line has most of its telling words."""
        if one_line(sentence) in self._folded:
            return True
        wanted = telling_words(sentence)
        found = [self._places[word] for word in wanted if word in self._places]
        telling = [places for places in found if len(places) <= MOST_LOOKED_AT]
        if not telling or len(telling) < _MOST_OF_IT * len(wanted):
            return False
        shared = Counter(chain.from_iterable(telling))
        return max(shared.values()) >= _MOST_OF_IT * len(wanted)

    @cached_property
    def _places(self) -> dict[str, list[int]]:
        places: dict[str, list[int]] = {}
        for number, line in enumerate(self._lines):
            for word in telling_words(line):
                places.setdefault(word, []).append(number)
        return places
