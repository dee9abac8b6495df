"""Fits the lines of an account to a room: talk first, then what tools answered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mcp_compaction.core.account.lines import Kind, Line
from mcp_compaction.core.excerpts.render import excerpts_block
from mcp_compaction.core.limits import LONGEST_ORDER
from mcp_compaction.core.tokens import CountTokens
from mcp_compaction.model import Excerpt

_WHOLE = 9  # a form longer than any
_MOST_MISSES = 12  # lines in a row that did not fit: what is left is too little to look on


class _Turn(NamedTuple):
    """The lines of a kind grow to one of their forms, within a share of the room."""

    kind: Kind
    level: int
    share: float


# What is missed most first. The shares leave each kind something where not all talk fits.
_TALK_CUT = (
    _Turn("user", 0, 1.0),
    _Turn("order", 0, 1.0),
    _Turn("user", _WHOLE, 1.0),
    _Turn("asked", 0, 0.2),
    _Turn("closing", 0, 0.3),
    _Turn("doubt", _WHOLE, 0.2),
    _Turn("steps", 0, 0.2),
    _Turn("order", _WHOLE, 1.0),
    _Turn("asked", 1, 0.2),
    _Turn("closing", 1, 0.3),
    _Turn("steps", 1, 0.3),
)
_WHOLE_WORDS = (
    *(_Turn(kind, _WHOLE, 1.0) for kind in ("user", "order", "doubt", "asked", "closing")),
    _Turn("steps", 0, 0.3),
    _Turn("said", _WHOLE, 1.0),
)
_STEPS = (
    _Turn("file", _WHOLE, 0.5),
    _Turn("steps", 0, 0.4),
    _Turn("steps", 1, 1.0),
    _Turn("steps", 0, 1.0),
    _Turn("steps", 2, 1.0),
    _Turn("aside", _WHOLE, 1.0),
    _Turn("steps", 3, 1.0),
    _Turn("file", _WHOLE, 1.0),
    _Turn("steps", _WHOLE, 1.0),
)


def fit_account(
    lines: Sequence[Line], room: int, count: CountTokens, *, keeps_talk: bool, of_order: int
) -> tuple[Excerpt, ...]:
    """The lines in the longest forms that a room holds, in the order of their time.

    `keeps_talk`: all that was said stands whole before any call gets more than nothing.
    `of_order`: the most tokens of each long order.
    """
    growing = _Growing(lines, room, count, of_order)
    for turn in (*(() if keeps_talk else _TALK_CUT), *_WHOLE_WORDS, *_STEPS):
        growing.grow(turn)
    return growing.shown()


class _Growing:
    """The lines of an account, each in the form that it has so far."""

    def __init__(self, lines: Sequence[Line], room: int, count: CountTokens, of_order: int) -> None:
        self._lines, self._room, self._count, self._of_order = lines, room, count, of_order
        self._kinds = [self._kind_of(line) for line in lines]
        self._left = room
        self._levels: dict[int, int] = {}  # by the place of a line
        self._costs: dict[int, int] = {}
        self._grown: list[tuple[int, int, int]] = []  # places, their levels before, what it cost

    def _kind_of(self, line: Line) -> Kind:
        """What a line counts as: long words of which a room holds all in an order's share are words
        like others; a text that is longer than any talk never is."""
        if line.kind != "order" or len(line.whole[0].pieces[0]) > LONGEST_ORDER:
            return line.kind
        return "user" if line.cost(_WHOLE, self._count) <= self._of_order else "order"

    def grow(self, turn: _Turn) -> None:
        """Lengthen the lines of a kind, the newest first, while their share holds."""
        places = [n for n, kind in enumerate(self._kinds) if kind == turn.kind]
        used = sum(self._costs.get(place, 0) for place in places)
        left = min(self._left, int(turn.share * self._room) - used)
        misses = 0
        for place in reversed(places):
            if left <= 0 or misses > _MOST_MISSES:
                break
            line = self._lines[place]
            level, now = min(turn.level, len(line.makes) - 1), self._levels.get(place, -1)
            if level <= now:
                continue
            before = self._costs.get(place, 0)
            most = min(left, self._of_order - before) if turn.kind == "order" else left
            # Of an order and of a file the longest form that the share holds; other words whole.
            least = now + 1 if turn.kind in ("order", "file") else level
            for form in range(level, least - 1, -1):
                more = line.cost(form, self._count) - before
                if more <= most:
                    misses = 0
                    self._grown.append((place, now, more))
                    self._levels[place] = form
                    self._costs[place] = before + more
                    self._left -= more
                    left -= more
                    break
            else:
                misses += 1

    def shown(self) -> tuple[Excerpt, ...]:
        """The lines as they stand; those that grew last shrink again where tokens joined are more
        than their sum."""
        while True:
            chosen = tuple(
                one
                for place, line in enumerate(self._lines)
                if self._levels.get(place, -1) >= 0
                for one in line.form(self._levels[place])
            )
            over = self._count(excerpts_block(chosen)) - self._room if chosen else 0
            if over <= 0:
                return chosen
            while over > 0 and self._grown:
                place, level, more = self._grown.pop()
                self._levels[place] = level
                over -= more
