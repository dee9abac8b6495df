"""The plain ways to spend a view's tokens on a session: its newest lines, with or without more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from mcp_compaction.core.tokens import CountTokens
from mcp_compaction.evals.baselines import keep_last, take_until_full, tokens_of
from mcp_compaction.evals.handover.sessions import Turn, names_in
from mcp_compaction.evals.measures import PlainLine

PlainWay = Callable[[Sequence[Turn], float, CountTokens], str]

_FIRST_SHARE = _NAMES_SHARE = 0.25  # of the budget


def newest_lines(turns: Sequence[Turn], budget: float, count: CountTokens) -> str:
    """The newest lines that fit, whatever they are."""
    return _join(keep_last(_lines_of(turns), budget, count))


def first_and_last(turns: Sequence[Turn], budget: float, count: CountTokens) -> str:
    """The first lines for a quarter of the tokens, then the newest."""
    lines = _lines_of(turns)
    first = take_until_full(lines, budget * _FIRST_SHARE, count)
    left = budget - tokens_of(first, count)
    return _join([*first, *keep_last(lines[len(first) :], left, count)])


def names_and_newest(turns: Sequence[Turn], budget: float, count: CountTokens) -> str:
    """The names that calls passed most and most lately for a quarter, then the newest lines."""
    worth: Counter[str] = Counter()
    for place, turn in enumerate(turns):
        for name in sorted(names_in(turn.typed)):
            worth[name] += 1 + round(1_000 * place / len(turns))
    best = [PlainLine(role="", text=name) for name, _ in worth.most_common()]
    names = take_until_full(best, budget * _NAMES_SHARE, count)
    left = budget - tokens_of(names, count)
    return "\n".join((_join(names, " "), newest_lines(turns, left, count)))


PLAIN_WAYS: Mapping[str, PlainWay] = MappingProxyType(
    {
        "newest lines": newest_lines,
        "first and last": first_and_last,
        "names, newest": names_and_newest,
    }
)


def _lines_of(turns: Sequence[Turn]) -> list[PlainLine]:
    texts = [line for turn in turns for line in f"{turn.role}: {turn.text}".split("\n")]
    return [PlainLine(role="", text=text) for text in texts]


def _join(lines: Sequence[PlainLine], between: str = "\n") -> str:
    return between.join(line.text for line in lines)
