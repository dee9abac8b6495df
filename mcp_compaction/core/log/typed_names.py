"""Keeps account of the names that an agent typed in its calls, by how often and how lately."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from mcp_compaction.core.log.content import words_of
from mcp_compaction.core.text.patterns import pattern_of
from mcp_compaction.model import Message

_NAME = pattern_of(
    r"(?:~|\.{1,2})?/?[\w@+-][\w.@+-]*(?:/[\w.@+-]+)+|/[\w.@+-]+(?:/[\w.@+-]+)*"  # a path
    r"|\b[\w-]+(?:\.[\w-]+)*\.[A-Za-z]\w{0,9}\b"  # a file, or a name with parts
    r"|(?<!\S)--[a-z][\w-]+"  # an option
    r"|\b[A-Za-z]+(?:_[A-Za-z0-9]+)+\b|\b[a-z]+[A-Z][A-Za-z0-9]+\b|\b[A-Z][a-z0-9]+[A-Z]\w+\b"
    r"|\b(?=[0-9a-f]*\d)[0-9a-f]{7,40}\b|\b\d+\.\d+(?:\.\d+)+\b|\b\d{4,}\b"
)
_RUN = pattern_of(r"^(.*?)(\d{1,4})(\D*)$")
_SHORTEST, _LONGEST = 5, 100
_FEWEST_IN_A_RUN = 3
_MOST_CHARS = 20_000  # of one call; what is longer is the text of a file


class TypedName(NamedTuple):
    """A name, its worth, and the message that typed it last."""

    text: str
    worth: float
    ref: str


def typed_names(messages: Sequence[Message]) -> list[TypedName]:
    """The names that calls typed, those most used and most lately first; runs are folded."""
    worth: dict[str, float] = {}
    last: dict[str, str] = {}
    total = max(1, len(messages))
    for place, message in enumerate(messages):
        names = {
            name.rstrip(".,:;)")
            for call in message.calls
            for name in _NAME.findall(words_of(call)[:_MOST_CHARS])
            if _SHORTEST <= len(name) <= _LONGEST
        }
        for name in sorted(names):
            worth[name] = worth.get(name, 0.0) + 1 + place / total
            last[name] = message.ref
    found = (TypedName(name, value, last[name]) for name, value in worth.items())
    return sorted(_fold_runs(found), key=lambda one: -one.worth)


def _fold_runs(names: Iterable[TypedName]) -> Iterator[TypedName]:
    """Names that differ in one number as one: `part_1..33.py`."""
    parted: dict[tuple[str, str], list[tuple[int, TypedName]]] = {}
    for one in names:
        found = _RUN.match(one.text)
        if found is None or found[2].startswith("0") or not (found[1] or found[3]):
            yield one
        else:
            parted.setdefault((found[1], found[3]), []).append((int(found[2]), one))
    for (before, behind), numbered in parted.items():
        ordered = sorted(numbered, key=lambda pair: pair[0])
        for _, run in groupby(enumerate(ordered), key=lambda pair: pair[1][0] - pair[0]):
            members = [pair for _, pair in run]
            if len(members) < _FEWEST_IN_A_RUN:
                yield from (one for _, one in members)
                continue
            newest = max((one for _, one in members), key=lambda one: int(one.ref[1:]))
            text = f"{before}{members[0][0]}..{members[-1][0]}{behind}"
            yield TypedName(text, max(one.worth for _, one in members), newest.ref)
