"""Plain ways to fill a room with what was said, which read no meaning: a view of ours has to beat
them where it tells more than the newest lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from mcp_compaction.core.log.content import words_of
from mcp_compaction.core.log.tool_calls import values_of
from mcp_compaction.core.text.words import one_line
from mcp_compaction.core.tokens import CountTokens
from mcp_compaction.model import Part, Text, ToolCall, ToolResult

_ANSWERS = (150, 60, 0)  # characters of a result in its line, as far as there is room
_ARGUMENT = 160  # characters of what a call passes
_MOST_TALK, _SHORTENED_TALK = 0.85, 0.9  # of the room
_NAMES, _MOST_NAMES = 1 / 3, 1_500  # of what is left


class AnyTurn(Protocol):
    """A message as a plain way reads it."""

    @property
    def role(self) -> str:
        """Whose turn it is."""
        ...

    @property
    def parts(self) -> Sequence[Part]:
        """What it says, calls and was answered."""
        ...


def take_lines(lines: Iterable[str], room: float, count: CountTokens) -> list[str]:
    """The first lines that a room holds, each with its end."""
    kept: list[str] = []
    for line in lines:
        room -= count(line) + 1
        if room < 0:
            break
        kept.append(line)
    return kept


def newest_lines(turns: Sequence[AnyTurn], room: float, count: CountTokens) -> str:
    """The newest lines that a room holds, whatever they are."""
    texts = ("\n".join(map(words_of, turn.parts)) for turn in reversed(turns))
    whole = (f"{turn.role}: {text}" for turn, text in zip(reversed(turns), texts, strict=True))
    backwards = (line for text in whole for line in reversed(text.split("\n")))
    return "\n".join(take_lines(backwards, room, count)[::-1])


def talk_and_steps(
    turns: Sequence[AnyTurn], room: float, count: CountTokens, names: Iterable[str] = ()
) -> str:
    """All that was said, each call in a line with what came, the names given and the newest lines;
    where that is too much, the newest of it."""
    told: list[str] = []
    used = 0
    for answer in _ANSWERS:
        told = list(_tell(turns, answer))
        used = sum(count(line) + 1 for line in told)
        if used <= _MOST_TALK * room:
            break
    else:
        told = take_lines(reversed(told), _SHORTENED_TALK * room, count)[::-1]
        used = sum(count(line) + 1 for line in told)
    talk, left = "\n".join(told), max(0.0, room - used)
    newest = newest_lines(turns, left - min(_MOST_NAMES, _NAMES * left) if names else left, count)
    shown = talk + newest
    beside = (name for name in names if name not in shown)
    listed = take_lines(beside, left - count(newest) - 1, count)
    return "\n".join((talk, " ".join(listed), newest))


def tickets(turns: Sequence[AnyTurn], room: float, count: CountTokens) -> str:
    """All that was said and called, whole, and a ticket in the place of each result but the newest
    that fit; where even that is too much, the newest of it."""
    pairs = [pair for place, turn in enumerate(turns, 1) for pair in _with_tickets(turn, place)]
    shown = [short for _, short in pairs]
    used = sum(count(short) + 1 for short in shown)
    for place in range(len(pairs) - 1, -1, -1):
        whole, short = pairs[place]
        used += count(whole) - count(short)
        if used > room:
            break
        shown[place] = whole
    return "\n".join(take_lines(reversed(shown), room, count)[::-1])


def _with_tickets(turn: AnyTurn, place: int) -> Iterator[tuple[str, str]]:
    """What a message says, each part whole and as a ticket may stand for it."""
    for part in turn.parts:
        if isinstance(part, ToolCall):
            whole = f"{part.name} {' '.join(values_of(part.arguments))}"
        else:
            whole = part.text if isinstance(part, Text | ToolResult) else ""
        if whole:
            yield whole, f"[result m{place}]" if isinstance(part, ToolResult) else whole


def _tell(turns: Sequence[AnyTurn], answer: int) -> Iterator[str]:
    results = {p.call: p.text for turn in turns for p in turn.parts if isinstance(p, ToolResult)}
    for place, turn in enumerate(turns, 1):
        said = "\n".join(part.text for part in turn.parts if isinstance(part, Text)).strip()
        if said:
            yield f"m{place} {turn.role}: {said}"
        for part in turn.parts:
            if isinstance(part, ToolCall):
                given = _shorten(" ".join(values_of(part.arguments)), _ARGUMENT)
                came = _shorten(results.get(part.id, ""), answer) if answer else ""
                yield f"m{place} {part.name} {given}{f' -> {came}' if came else ''}"


def _shorten(text: str, most: int) -> str:
    """The beginning and the end of a text, on one line."""
    line = one_line(text)
    half = most // 2
    return line if len(line) <= most else f"{line[: most - half]} … {line[-half:]}"
