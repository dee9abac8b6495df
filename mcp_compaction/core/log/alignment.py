"""Finds the runs that two sequences have in common: around what each of them has once, and at
both ends. It takes no longer where much is said again and again."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from itertools import takewhile
from typing import NamedTuple


class SharedRun(NamedTuple):
    """A run that stands in both sequences: its place in each, and its length."""

    first: int
    second: int
    size: int


def find_matches(first: Sequence[str], second: Sequence[str]) -> list[SharedRun]:
    """The runs in common, in order."""
    found: list[SharedRun] = []
    a = b = 0  # where the newest run ends
    for x, y in [(0, 0), *_find_anchors(first, second), (len(first), len(second))]:
        if x < a:
            continue  # an anchor inside that run
        before = _count_equal(first[a:x][::-1], second[b:y][::-1])
        size = before + _count_equal(first[x:], second[y:])
        if size:
            found.append(SharedRun(x - before, y - before, size))
            a, b = x - before + size, y - before + size
    return found


def find_pairs(first: Sequence[str], second: Sequence[str]) -> list[tuple[int, int]]:
    """The places of all that is in both: the runs in common, between these whatever is equal, the
    earliest first, and then what stands in another order."""
    pairs: list[tuple[int, int]] = []
    a = b = 0  # where the newest run ends
    for x, y, size in [*find_matches(first, second), SharedRun(len(first), len(second), 0)]:
        for j in range(b, y):
            i = next((i for i in range(a, x) if first[i] == second[j]), None)
            if i is not None:
                pairs.append((i, j))
                a = i + 1
        pairs += ((x + n, y + n) for n in range(size))
        a, b = x + size, y + size
    if not pairs:
        return []
    paired, met = {i for i, _ in pairs}, {j for _, j in pairs}
    left = [i for i in range(len(first)) if i not in paired]
    open_ = [j for j in range(len(second)) if j not in met]
    moved = find_pairs([first[i] for i in left], [second[j] for j in open_])
    return sorted([*pairs, *((left[i], open_[j]) for i, j in moved)])


def _count_equal(said: Sequence[str], sent: Sequence[str]) -> int:
    """The length of the start that two sequences have in common."""
    pairs = zip(said, sent, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _find_anchors(said: Sequence[str], sent: Sequence[str]) -> list[tuple[int, int]]:
    """The places of the most items in the same order that each sequence has just once."""
    known, new = Counter(said), Counter(sent)
    places = {item: place for place, item in enumerate(said) if known[item] == new[item] == 1}
    shared = [(places[item], place) for place, item in enumerate(sent) if item in places]
    # The longest rising row: for each length the lowest place at which such a row can end.
    ends: list[int] = []
    newest: list[int] = []  # and the number of the pair there
    before: list[int | None] = []  # of each pair, the one that its row has before it
    for number, (place, _) in enumerate(shared):
        length = bisect_left(ends, place)
        before.append(newest[length - 1] if length else None)
        ends[length : length + 1] = [place]
        newest[length : length + 1] = [number]
    row: list[tuple[int, int]] = []
    at = newest[-1] if newest else None
    while at is not None:
        row.append(shared[at])
        at = before[at]
    return row[::-1]
