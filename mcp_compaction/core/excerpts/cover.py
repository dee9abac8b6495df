"""Chooses the pieces of talk that say most for a room: a word is worth less each time it is said.

The numbers were found on LoCoMo's first five chats: `mcp-compaction eval` is the measure, and
without all this .37 of its answers are in a view instead of .69.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from itertools import pairwise
from typing import NamedTuple

from mcp_compaction.core.excerpts.pieces import ITEM_NUMBER, Snippet, cost_of
from mcp_compaction.core.text.patterns import pattern_of
from mcp_compaction.core.text.words import telling_in_order
from mcp_compaction.core.tokens import CountTokens

# Each begins with a plain sign, so that a search passes over all the others at once.
NUMBER = pattern_of(r"\d(?<!\w\d)[\d,.:/%-]*\b")
NAME = pattern_of(r"[A-Z](?:(?<=[a-z,] [A-Z])[a-z]+\b|(?<!\w[A-Z])[a-z]+(?: [A-Z][a-z]+)+\b)")
_QUOTE = pattern_of(r"\"[^\"]{2,60}\"")

_GOOD_ENOUGH = 0.95
_FULL = 0.99  # of the room: what is left is not worth looking for
_DECAY = 0.3  # a word said again is worth this much each time
_LENGTH = 0.7  # long pieces pay for their length, but not in full
_PAIR = 0.15  # two telling words side by side, against one


class _Candidate(NamedTuple):
    """A piece, and what it is worth before anything is covered."""

    piece: Snippet
    features: tuple[str, ...]
    weight: float


def choose_by_cover(
    found: Sequence[Snippet], covered: Counter[str], room: int, count: CountTokens
) -> list[Snippet]:
    """The pieces that add most to the words that are covered already, in a room."""
    choices = list(map(_weigh, found))
    worths = {f: _PAIR if " " in f else 1.0 for choice in choices for f in choice.features}
    gains = worths | {f: worths[f] * _DECAY**n for f, n in covered.items() if f in worths}

    def worth(choice: _Candidate) -> float:
        return sum(map(gains.__getitem__, choice.features)) * choice.weight

    queue = [(-worth(choice), number) for number, choice in enumerate(choices)]
    heapify(queue)
    chosen: list[Snippet] = []
    used = 0
    while queue and used <= _FULL * room:
        _, number = heappop(queue)
        choice = choices[number]
        value = -worth(choice)
        if value >= 0:
            continue
        # Good enough is taken: weighing all anew for the very best would take ten times as long.
        if queue and value > queue[0][0] * _GOOD_ENOUGH:
            heappush(queue, (value, number))
            continue
        cost = cost_of(choice.piece, count)
        if used + cost <= room and choice.piece.is_harmless:
            chosen.append(choice.piece)
            covered.update(choice.features)
            gains.update((f, worths[f] * _DECAY ** covered[f]) for f in choice.features)
            used += cost
    return chosen


def features_of(piece: Snippet) -> tuple[str, ...]:
    """The words of a piece that say something, and those that stand side by side."""
    pairs = {f"{a} {b}" for a, b in pairwise(telling_in_order(piece.text)) if a and b}
    return (*piece.words, *sorted(pairs))


def _weigh(piece: Snippet) -> _Candidate:
    text = piece.text
    asks = 0.4 if text.endswith("?") else 1.0
    weight = _count_facts(text) * asks / (len(text) / 4 + 1) ** _LENGTH
    return _Candidate(piece, features_of(piece), weight)


def _count_facts(text: str) -> float:
    """How much a text tells by its numbers, names and quotations; 1 without any."""
    number = ITEM_NUMBER.match(text)  # which counts the items and tells nothing
    text = text[number.end() :] if number else text
    names = 0 if text.islower() else len(NAME.findall(text))  # most lines name nobody
    return (
        1
        + 0.3 * min(2, len(NUMBER.findall(text)))
        + 0.8 * min(2, names)
        + 0.6 * bool('"' in text and _QUOTE.search(text))
    )
