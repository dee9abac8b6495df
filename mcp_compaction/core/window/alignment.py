"""Finds the runs that two sequences have in common, beginning with what each of them has once.

Between such anchors little is left to compare: long sequences in which much is said again and
again cost little more than others.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import pairwise, takewhile
from typing import NamedTuple

_MOST_PAIRS = 50_000  # equal items that are compared where there is no anchor; above, none


class SharedRun(NamedTuple):
    """A run that stands in both sequences: its place in each, and its length."""

    first: int
    second: int
    size: int


class _Stretch(NamedTuple):
    """A part of both sequences: the places at which it begins and ends in each."""

    first: int
    second: int
    first_end: int
    second_end: int


def find_matches(first: Sequence[str], second: Sequence[str]) -> list[SharedRun]:
    """The runs in common, in order."""
    found: list[SharedRun] = []
    left = [_Stretch(0, 0, len(first), len(second))]
    while left:
        here = left.pop()
        said, sent = first[here.first : here.first_end], second[here.second : here.second_end]
        start = _count_equal(said, sent)
        said, sent = said[start:], sent[start:]
        end = _count_equal(said[::-1], sent[::-1])
        inner = _Stretch(
            here.first + start, here.second + start, here.first_end - end, here.second_end - end
        )
        found += [SharedRun(here.first, here.second, start)] if start else []
        found += [SharedRun(inner.first_end, inner.second_end, end)] if end else []
        said, sent = said[: len(said) - end], sent[: len(sent) - end]
        anchors = _find_anchors(said, sent)
        matches = anchors or _compare(said, sent)
        placed = [SharedRun(inner.first + a, inner.second + b, size) for a, b, size in matches]
        found += placed
        if anchors:
            left += _stretches_between(inner, placed)
    return list(_join(sorted(found)))


def _count_equal(said: Sequence[str], sent: Sequence[str]) -> int:
    """The length of the start that two sequences have in common."""
    pairs = zip(said, sent, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _find_anchors(said: Sequence[str], sent: Sequence[str]) -> list[SharedRun]:
    """The most items in the same order that each sequence has just once."""
    known, new = Counter(said), Counter(sent)
    places = {item: place for place, item in enumerate(said) if known[item] == new[item] == 1}
    shared = [SharedRun(places[item], b, 1) for b, item in enumerate(sent) if item in places]
    # The longest rising row: for each length the lowest place at which such a row can end.
    ends: list[int] = []
    rows: list[tuple[SharedRun, int | None]] = []  # each with the item before it
    last_of: list[int] = []
    for match in shared:
        length = bisect_left(ends, match.first)
        before = last_of[length - 1] if length else None
        rows.append((match, before))
        ends[length : length + 1] = [match.first]
        last_of[length : length + 1] = [len(rows) - 1]
    row: list[SharedRun] = []
    at = last_of[-1] if last_of else None
    while at is not None:
        match, at = rows[at]
        row.append(match)
    return row[::-1]


def _compare(said: Sequence[str], sent: Sequence[str]) -> list[SharedRun]:
    """The runs in common of sequences without anchors; none where that would take long."""
    known, new = Counter(said), Counter(sent)
    if sum(known[item] * new[item] for item in known) > _MOST_PAIRS:
        return []
    blocks = SequenceMatcher(None, said, sent, autojunk=False).get_matching_blocks()
    return [SharedRun(*block) for block in blocks if block.size]


def _stretches_between(where: _Stretch, anchors: Sequence[SharedRun]) -> Iterator[_Stretch]:
    ends = SharedRun(where.first_end, where.second_end, 0)
    for one, other in pairwise([SharedRun(where.first, where.second, 0), *anchors, ends]):
        a, b = one.first + one.size, one.second + one.size
        if a < other.first and b < other.second:
            yield _Stretch(a, b, other.first, other.second)


def _join(matches: Iterable[SharedRun]) -> Iterator[SharedRun]:
    """The matches, with those in one that follow each other in both sequences."""
    joined: SharedRun | None = None
    for match in matches:
        if joined is None:
            joined = match
        elif match[:2] == (joined.first + joined.size, joined.second + joined.size):
            joined = joined._replace(size=joined.size + match.size)
        else:
            yield joined
            joined = match
    if joined is not None:
        yield joined
