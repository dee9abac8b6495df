"""Plain accounts of a session in a number of tokens, which read no meaning: what our views have to
beat where more is told than the newest lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from mcp_compaction.core.text.words import one_line
from mcp_compaction.core.tokens import CountTokens
from mcp_compaction.evals.baselines import cost, take_until_full, tokens_of
from mcp_compaction.evals.corpora import PlainLine, leaves_of
from mcp_compaction.evals.handover import PlainWay, names_by_use, newest_lines
from mcp_compaction.evals.handover_sessions import Turn
from mcp_compaction.model import Text, ToolCall, ToolResult

_ANSWERS = (150, 60, 0)  # characters of a result in its line, as far as there is room
_ARGUMENT = 160  # characters of what a call passes
_MOST_TALK, _SHORTENED_TALK = 0.85, 0.9  # of the budget
_NAMES, _MOST_NAMES = 1 / 3, 1_500  # of what is left; tokens


def talk_and_steps(turns: Sequence[Turn], budget: float, count: CountTokens) -> str:
    """All that was said, each call in a line with what came, the names that calls passed, and the
    newest lines; where that is too much, the newest of it."""
    told: list[PlainLine] = []
    for answer in _ANSWERS:
        told = [PlainLine(role="", text=line) for line in _tell(turns, answer)]
        if tokens_of(told, count) <= _MOST_TALK * budget:
            break
    else:
        told = take_until_full(told[::-1], _SHORTENED_TALK * budget, count)[::-1]
    talk = "\n".join(line.text for line in told)
    left = max(0.0, budget - tokens_of(told, count))
    newest = newest_lines(turns, left - min(_MOST_NAMES, _NAMES * left), count)
    room = left - cost(newest, count)
    beside = [PlainLine(role="", text=n) for n in names_by_use(turns) if n not in talk + newest]
    names = take_until_full(beside, room, count)
    return "\n".join((talk, " ".join(line.text for line in names), newest))


def tickets(turns: Sequence[Turn], budget: float, count: CountTokens) -> str:
    """All that was said and called, whole, and a ticket in the place of each result but the newest
    that fit; where even that is too much, the newest of it."""
    said = [[_Piece(place, part) for part in turn.parts] for place, turn in enumerate(turns)]
    pieces = [piece for of_turn in said for piece in of_turn if piece.whole]
    used = sum(cost(piece.short, count) for piece in pieces)
    shown = [piece.short for piece in pieces]
    for place in range(len(pieces) - 1, -1, -1):
        used += cost(pieces[place].whole, count) - cost(pieces[place].short, count)
        if used > budget:
            break
        shown[place] = pieces[place].whole
    kept = take_until_full([PlainLine(role="", text=t) for t in shown[::-1]], budget, count)
    return "\n".join(line.text for line in kept[::-1])


class _Piece:
    """A part of a message, whole and as a ticket may stand for it."""

    def __init__(self, place: int, part: object) -> None:
        self.whole = self.short = ""
        if isinstance(part, Text):
            self.whole = self.short = part.text
        elif isinstance(part, ToolCall):
            self.whole = self.short = f"{part.name} {' '.join(leaves_of(part.arguments))}"
        elif isinstance(part, ToolResult):
            self.whole, self.short = part.text, f"[result m{place + 1}]"


def _tell(turns: Sequence[Turn], answer: int) -> Iterator[str]:
    results = {
        part.call: part.text
        for turn in turns
        for part in turn.parts
        if isinstance(part, ToolResult)
    }
    for place, turn in enumerate(turns, 1):
        if turn.said.strip():
            yield f"m{place} {turn.role}: {turn.said.strip()}"
        for part in turn.parts:
            if isinstance(part, ToolCall):
                given = _shorten(" ".join(leaves_of(part.arguments)), _ARGUMENT)
                came = _shorten(results.get(part.id, ""), answer) if answer else ""
                yield f"m{place} {part.name} {given}{f' -> {came}' if came else ''}"


def _shorten(text: str, most: int) -> str:
    """The beginning and the end of a text, on one line."""
    line = one_line(text)
    half = most // 2
    return line if len(line) <= most else f"{line[: most - half]} … {line[-half:]}"


ACCOUNTS: Mapping[str, PlainWay] = MappingProxyType(
    {"talk and steps": talk_and_steps, "tickets": tickets}
)
