"""Looks for thousands of texts in a long one without reading it anew for each."""

from __future__ import annotations

import re
from collections.abc import Sequence

_RUN = re.compile(r"\S+")


class Haystack:
    """A long text in which many others are looked for."""

    def __init__(self, text: str) -> None:
        """Note where each word of the text stands."""
        self.text = text
        self._places: dict[str, list[int]] = {}
        for run in _RUN.finditer(text):
            self._places.setdefault(run[0], []).append(run.start())

    def holds(self, part: str) -> bool:
        """Whether the text holds that part, sign by sign."""
        # The first and the last word may be the end and the beginning of longer ones.
        inner = list(_RUN.finditer(part))[1:-1]
        if not inner:
            return part in self._places or part in self.text
        places: Sequence[int] = ()
        before = 0  # signs of the part before its rarest inner word
        for run in inner:
            stands = self._places.get(run[0])
            if stands is None:
                return False
            if not places or len(stands) < len(places):
                places, before = stands, run.start()
        return any(
            self.text.startswith(part, place - before) for place in places if place >= before
        )
