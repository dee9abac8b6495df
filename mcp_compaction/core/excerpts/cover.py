"""Chooses the pieces that say most for a room: each word is worth less each time it is said."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from itertools import chain
from math import log
from typing import NamedTuple

from mcp_compaction.core.excerpts.pieces import Piece
from mcp_compaction.core.tokens import CountTokens
from mcp_compaction.model import By

_REF_TOKENS = 1  # about: near messages share a ref
_LINE_SHARE = 40  # percent of what is left for lines of code and logs
_GOOD_ENOUGH = 0.95
_ROUGHLY = 0.8  # a piece whose guessed cost is this far over the room need not be counted
_MOST_CHARS_OF_TOKEN = 8  # about: hardly any text has longer ones throughout
_FULL = 0.99  # of the room: what is left is not worth looking for

# Found on LoCoMo's first five chats and tau's first runs: `mcp-compaction eval` is the measure.
_DECAY = 0.3  # a word said again is worth this much each time
_LENGTH = 0.7  # long pieces pay for their length, but not in full
_PAIR = 0.15  # two telling words side by side, against one
_WORTH: dict[By, float] = {
    "user": 1.5,
    "reported": 1.5,
    "doubt": 1.0,
    "decision": 3.0,
    "answer": 2.0,
    "agent": 1.0,
    "command": 2.0,
    "field": 1.0,
    "line": 0.3,
    "talk": 1.0,
}
_RUN_AGAIN = 2.0  # a command that was run more than once, against another
_ONCE = 0.8  # a word of only one message is more often a slip than a subject


class _Candidate(NamedTuple):
    """A piece, and what it is worth before anything is covered."""

    piece: Piece
    features: tuple[str, ...]
    weight: float
    cost: float


def cost_of(piece: Piece, count: CountTokens) -> int:
    """The tokens that a piece takes, with its share of a ref."""
    return count(piece.text) + _REF_TOKENS


def may_fit(piece: Piece, room: int) -> bool:
    """Whether a piece may fit into a room: a cheap look that spares counting most that do not."""
    return len(piece.text) <= room * _MOST_CHARS_OF_TOKEN


def choose_by_cover(
    found: Sequence[Piece], covered: Counter[str], room: int, count: CountTokens
) -> list[Piece]:
    """The pieces that add most to the words that are covered already, in a room."""
    newness = _newness_of_messages(found)
    choices = [_weigh(piece, newness[piece.seq]) for piece in found]
    worths = _worth_of_words(choices)
    gains = worths | {f: worths[f] * _DECAY**n for f, n in covered.items() if f in worths}

    def worth(choice: _Candidate) -> float:
        return sum(map(gains.__getitem__, choice.features)) * choice.weight

    queue = [(-worth(choice), number) for number, choice in enumerate(choices)]
    heapify(queue)
    chosen: list[Piece] = []
    used = 0
    lines = room * _LINE_SHARE // 100
    while queue:
        _, number = heappop(queue)
        choice = choices[number]
        value = -worth(choice)
        if value >= 0:
            continue
        # Good enough is taken: weighing all anew for the very best would take ten times as long.
        if queue and value > queue[0][0] * _GOOD_ENOUGH:
            heappush(queue, (value, number))
            continue
        if used > _FULL * room:
            break
        cost = cost_of(choice.piece, count) if used + choice.cost * _ROUGHLY <= room else room + 1
        is_line = choice.piece.by == "line"
        if used + cost <= room and not (is_line and cost > lines) and choice.piece.is_harmless:
            chosen.append(choice.piece)
            covered.update(choice.features)
            gains.update((f, worths[f] * _DECAY ** covered[f]) for f in choice.features)
            used += cost
            lines -= cost if is_line else 0
    return chosen


def _worth_of_words(choices: Sequence[_Candidate]) -> dict[str, float]:
    """How telling a word is: in work the fewer messages say it, the more; in talk all alike."""
    said_by: dict[int, set[str]] = {}
    for choice in choices:
        said_by.setdefault(choice.piece.seq, set()).update(choice.features)
    said_in = Counter(chain.from_iterable(said_by.values()))
    is_talk = any(choice.piece.by == "talk" for choice in choices)
    worth = {
        number: 1.0 if is_talk else _rarity_of(number, len(said_by))
        for number in set(said_in.values())
    }
    return {
        name: worth[number] * _PAIR if " " in name else worth[number]
        for name, number in said_in.items()
    }


def _rarity_of(said_in: int, messages: int) -> float:
    worth = log(1 + messages / (1 + said_in))
    return worth * _ONCE if said_in == 1 else worth


def _newness_of_messages(found: Sequence[Piece]) -> dict[int, float]:
    """How much each message counts by its age: work goes on where it stands, so that the oldest
    count a quarter of the newest; in talk all count alike."""
    numbers = sorted({piece.seq for piece in found})
    if any(piece.by == "talk" for piece in found):
        return dict.fromkeys(numbers, 1.0)
    return {seq: (0.5 + 0.5 * n / len(numbers)) ** 2 for n, seq in enumerate(numbers)}


def _weigh(piece: Piece, newness: float) -> _Candidate:
    cost = len(piece.text) / 4 + 1
    asks = 0.4 if piece.text.endswith("?") else 1.0
    again = _RUN_AGAIN if piece.uses > 1 else 1.0
    weight = piece.facts * asks * newness * again * _WORTH[piece.by] / cost**_LENGTH
    return _Candidate(piece, piece.features, weight, cost)
