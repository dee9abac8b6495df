"""The simpler ways to shrink a session, each given the same tokens as the product."""

from __future__ import annotations

import heapq
import math
import random
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from mcp_compaction.core.tokens import CountTokens
from mcp_compaction.evals.measures import PlainLine, content_words_of

Strategy = Callable[[Sequence[PlainLine], float, CountTokens], list[PlainLine]]

_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_NEARLY_FULL = 0.98
_S0_CHARS, _S0_SUMMARY = 100, 500
_S1_CHARS = 200
_TELLING = re.compile(
    r"\b\d[\d,.:/%-]*\b"  # a number
    r"|\b[A-Z][a-z]+(?: [A-Z][a-z]+)+\b"  # a name
    r"|\"[^\"]{2,60}\""  # a quotation
    r"|\b(?:never|always|must|not|no longer|decided|because|instead|prefer|until|deadline)\b"
)
_SMALL_TALK = re.compile(
    r"(?:\w+: )?(?:hey|hi|hello|wow|thanks|thank you|awesome|great|cool|yeah|sounds|glad|take care|"
    r"bye|that's (?:great|awesome|so)|so (?:cool|nice|glad))\b",
    re.I,
)


def cost(text: str, count: CountTokens) -> int:
    """The tokens of a line with its end."""
    return count(text) + 1


def tokens_of(lines: Sequence[PlainLine], count: CountTokens) -> int:
    """The tokens of a session: what every budget is a share of."""
    return sum(cost(line.text, count) for line in lines)


def keep_last(lines: Sequence[PlainLine], budget: float, count: CountTokens) -> list[PlainLine]:
    """The newest messages that fit."""
    return take_until_full(lines[::-1], budget, count)[::-1]


def what_s0_had(lines: Sequence[PlainLine], budget: float, count: CountTokens) -> list[PlainLine]:
    """The first 100 characters of each assistant message joined to 500, then the newest."""
    heads = [line.text[:_S0_CHARS] for line in lines if line.role == "assistant"]
    summary = PlainLine(role="assistant", text=" ".join(heads)[:_S0_SUMMARY])
    first = take_until_full([summary], budget, count)
    return [*first, *keep_last(lines, budget - tokens_of(first, count), count)]


def first_characters(
    lines: Sequence[PlainLine], budget: float, count: CountTokens
) -> list[PlainLine]:
    """The first 200 characters of each message, from the oldest on, until it is full."""
    heads = [PlainLine(role=line.role, text=line.text[:_S1_CHARS]) for line in lines]
    return take_until_full(heads, budget, count)


def tfidf(lines: Sequence[PlainLine], budget: float, count: CountTokens) -> list[PlainLine]:
    """The sentences with the rarest words for their length."""
    rarity = _rarity_of(lines)
    scored: list[tuple[float, PlainLine]] = []
    for unit in _sentences_of(lines):
        words = content_words_of(unit.text)
        score = sum(map(rarity, dict.fromkeys(words))) / math.sqrt(len(words) + 3)
        scored.append((score, unit))
    return _choose_best(scored, budget, count)


def novelty(lines: Sequence[PlainLine], budget: float, count: CountTokens) -> list[PlainLine]:
    """A greedy cover: each next sentence is worth the rare words that are not yet there."""
    rarity = _rarity_of(lines)
    units = _sentences_of(lines)
    # In their order, not as a set: sums of floats depend on it.
    words = [tuple(dict.fromkeys(content_words_of(unit.text))) for unit in units]
    costs = [cost(unit.text, count) for unit in units]
    weights = [_weight_of(unit.text) / size**0.8 for unit, size in zip(units, costs, strict=True)]
    covered: Counter[str] = Counter()

    def worth(n: int) -> float:
        return weights[n] * sum(rarity(word) * 0.5 ** covered[word] for word in words[n])

    queue = [(-worth(n), n) for n in range(len(units))]
    heapq.heapify(queue)
    chosen: list[int] = []
    used = 0
    while queue:
        _, n = heapq.heappop(queue)
        now = -worth(n)
        if queue and now > queue[0][0] + 1e-9:  # others cover more by now
            heapq.heappush(queue, (now, n))
        elif used + costs[n] <= budget:
            chosen.append(n)
            used += costs[n]
            covered.update(words[n])
        elif used > _NEARLY_FULL * budget:
            break
    return [units[n] for n in sorted(chosen)]


def at_random(lines: Sequence[PlainLine], budget: float, count: CountTokens) -> list[PlainLine]:
    """Sentences drawn by lot."""
    lot = random.Random(0)
    return _choose_best([(lot.random(), unit) for unit in _sentences_of(lines)], budget, count)


BASELINES: Mapping[str, Strategy] = MappingProxyType(
    {
        "keep last": keep_last,
        "first 100, to 500": what_s0_had,
        "first 200 each": first_characters,
        "TF-IDF": tfidf,
        "novelty": novelty,
        "random": at_random,
    }
)


def take_until_full(
    lines: Sequence[PlainLine], budget: float, count: CountTokens
) -> list[PlainLine]:
    """The first lines that fit."""
    kept: list[PlainLine] = []
    used = 0
    for line in lines:
        used += cost(line.text, count)
        if used > budget:
            break
        kept.append(line)
    return kept


def _choose_best(
    scored: Sequence[tuple[float, PlainLine]], budget: float, count: CountTokens
) -> list[PlainLine]:
    """The lines that score highest and still fit, in their old order."""
    chosen: list[int] = []
    used = 0
    for n in sorted(range(len(scored)), key=lambda n: -scored[n][0]):
        size = cost(scored[n][1].text, count)
        if used + size <= budget:
            chosen.append(n)
            used += size
        elif used > _NEARLY_FULL * budget:
            break
    return [scored[n][1] for n in sorted(chosen)]


def _sentences_of(lines: Sequence[PlainLine]) -> list[PlainLine]:
    return [
        PlainLine(role=line.role, text=part.strip())
        for line in lines
        for part in _SENTENCE.split(line.text)
        if part.strip()
    ]


def _rarity_of(lines: Sequence[PlainLine]) -> Callable[[str], float]:
    """A function that gives the rarity of a word among the messages."""
    seen = Counter(word for line in lines for word in set(content_words_of(line.text)))
    return lambda word: math.log(1 + len(lines) / (1 + seen[word]))


def _weight_of(sentence: str) -> float:
    told = 1 + 0.2 * min(3, len(_TELLING.findall(sentence)))
    is_idle = _SMALL_TALK.match(sentence) or sentence.endswith("?")
    return told * (0.6 if is_idle else 1)
