"""Reads refs as a model writes them: `m42`, `m42~3` with neighbours, `m12..m40`."""

from __future__ import annotations

import re

from mcp_compaction.errors import InputError
from mcp_compaction.model import Value

_REF = re.compile(r"m(\d{1,12})(?:~(\d{1,2})|\.\.m?(\d{1,12}))?")
_MOST = 1_000


class Ref(Value):
    """One ref, with the messages it names; those around it are welcome but not demanded."""

    text: str
    first: int
    last: int
    around: int = 0

    @property
    def seqs(self) -> range:
        """The numbers of all messages it may bring."""
        return range(max(1, self.first - self.around), self.last + self.around + 1)


def parse_refs(text: str) -> tuple[Ref, ...]:
    """The refs of a text, separated by commas or spaces."""
    words = text.replace(",", " ").split()
    if not words:
        raise InputError("no ref was given; pass one such as m42.")
    return tuple(_ref(word) for word in words)


def parse_span(text: str) -> tuple[int, int]:
    """A span such as `m12..m40`."""
    ref = _ref(text.strip())
    if ref.around or ".." not in text:
        raise InputError(f"{text!r} is no span; write it as m12..m40.")
    return ref.first, ref.last


def number_of(ref: str, letter: str) -> int:
    """The number of a ref of one kind, such as 4 of `c4`."""
    match = re.fullmatch(rf"{letter}?(\d{{1,12}})", ref.strip())
    if match is None:
        raise InputError(f"{ref!r} is no such ref; write it as {letter}4.")
    return int(match.group(1))


def _ref(word: str) -> Ref:
    match = _REF.fullmatch(word)
    if match is None:
        raise InputError(f"{word!r} is no ref; write m42, m42~3 or m12..m40.")
    first = int(match.group(1))
    last = int(match.group(3) or first)
    if last < first or last - first >= _MOST:
        raise InputError(f"{word!r} names no span of at most {_MOST} messages; write m12..m40.")
    return Ref(text=word, first=first, last=last, around=int(match.group(2) or 0))
