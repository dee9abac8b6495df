"""Looks for thousands of texts in a long one without reading it anew for each."""

from __future__ import annotations

import re
from collections.abc import Sequence

_RUN = re.compile(r"\S+")
_NOWHERE: Sequence[int] = ()


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
        rarest = min(inner, key=lambda run: len(self._places.get(run[0], _NOWHERE)))
        return any(
            self.text.startswith(part, place - rarest.start())
            for place in self._places.get(rarest[0], _NOWHERE)
            if place >= rarest.start()
        )
