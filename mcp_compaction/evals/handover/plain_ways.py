"""The plain ways to spend a view's tokens on a session: its newest lines, with or without more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

from mcp_compaction.core.tokens import CountTokens
from mcp_compaction.evals.handover.names import names_in
from mcp_compaction.evals.handover.turns import Turn

PlainWay = Callable[[Sequence[Turn], float, CountTokens], str]

_FIRST_SHARE = _NAMES_SHARE = 0.25  # of the budget


def newest_lines(turns: Sequence[Turn], budget: float, count: CountTokens) -> str:
    """The newest lines that fit, whatever they are."""
    return "\n".join(_take(reversed(_lines_of(turns)), budget, count)[::-1])


def first_and_last(turns: Sequence[Turn], budget: float, count: CountTokens) -> str:
    """The first lines for a quarter of the tokens, then the newest."""
    lines = _lines_of(turns)
    first = _take(lines, budget * _FIRST_SHARE, count)
    left = budget - _cost_of(first, count)
    newest = _take(reversed(lines[len(first) :]), left, count)[::-1]
    return "\n".join((*first, *newest))


def names_and_newest(turns: Sequence[Turn], budget: float, count: CountTokens) -> str:
    """The names that calls passed most and most lately for a quarter, then the newest lines."""
    worth: Counter[str] = Counter()
    for place, turn in enumerate(turns):
        for name in sorted(names_in(turn.typed)):
            worth[name] += 1 + round(1_000 * place / len(turns))
    names = _take((name for name, _ in worth.most_common()), budget * _NAMES_SHARE, count)
    left = budget - _cost_of(names, count)
    return "\n".join((" ".join(names), newest_lines(turns, left, count)))


PLAIN_WAYS: Mapping[str, PlainWay] = MappingProxyType(
    {
        "newest lines": newest_lines,
        "first and last": first_and_last,
        "names, newest": names_and_newest,
    }
)


def _lines_of(turns: Sequence[Turn]) -> list[str]:
    return [line for turn in turns for line in f"{turn.role}: {turn.text}".split("\n")]


def _take(lines: Iterable[str], budget: float, count: CountTokens) -> list[str]:
    taken: list[str] = []
    used = 0
    for line in lines:
        used += count(line) + 1
        if used > budget:
            break
        taken.append(line)
    return taken


def _cost_of(lines: Iterable[str], count: CountTokens) -> int:
    return sum(count(line) + 1 for line in lines)
