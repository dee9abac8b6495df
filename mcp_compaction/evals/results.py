"""The results of an evaluation, as values that a table, a program or a page can show."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from mcp_compaction.model import Value

PRODUCT = "mcp-compaction"
_V = TypeVar("_V", bound=Value)


def name_with_model(model: str) -> str:
    """The product's name where a model writes its digests."""
    return f"{PRODUCT} + {model}"


_ENOUGH = 20  # items; of fewer a share says nothing


def is_enough(asked: int) -> bool:
    """Whether there are enough items for a share of them to say something."""
    return asked >= _ENOUGH


def format_share(share: float) -> str:
    """A share as tables have it: .93, or 1.00."""
    text = f"{share:.2f}"
    return text if share >= 0.995 else text.removeprefix("0")


def is_product(strategy: str) -> bool:
    """Whether this is the product, with or without a model."""
    return strategy == PRODUCT or strategy.startswith(name_with_model(""))


class Score(Value):
    """The number of things of one kind that survived one strategy, at one budget."""

    corpus: str
    strategy: str
    percent: int  # the budget, of the session's own tokens
    kind: str
    asked: int
    closed_book: int
    with_recall: int
    recoverable: int | None = None  # in the view, behind a ref in it, or found by its own words

    @property
    def closed_share(self) -> float:
        """The share that can be read without asking for it."""
        return self.closed_book / self.asked

    @property
    def recall_share(self) -> float:
        """The share that can be read after one recall."""
        return self.with_recall / self.asked


class StrategyCost(Value):
    """The tokens one strategy left and the time it took, over all sessions of a corpus."""

    corpus: str
    strategy: str
    percent: int
    sessions: int
    tokens: int
    of_tokens: int
    seconds: float
    over_budget: int = 0  # sessions whose context came out larger than the budget
    faults: tuple[str, ...] = ()  # what a provider would refuse, or why nothing was compressed


class Round(Value):
    """The things that stood after one round of a growing session."""

    strategy: str
    number: int
    group: str  # "standing": rules, open tasks, decisions; "the rest" may also be recoverable
    asked: int
    survived: int
    tokens: int

    @property
    def share(self) -> float:
        """The share that survived."""
        return self.survived / self.asked


class Detection(Value):
    """The detection of a user's rules, in common wordings and in those kept apart."""

    wording: str
    stated: int
    noticed: int


class RefereeScore(Value):
    """What an outside referee found of one strategy, at one budget; shares of 1."""

    strategy: str
    percent: int  # the budget, of the session's own characters
    survived: float  # of what was planted
    resolved: float  # of what was said anew in other words: only the newest stands
    told_apart: float  # of pairs that only look alike: both stand
    is_within_budget: bool


class HandoverScore(Value):
    """What one way kept of what the rest of real sessions needed, or how many claims held."""

    source: str  # the host that wrote the sessions
    budget: str
    way: str
    measure: str
    kept: int
    asked: int
    sessions: int  # that ask for anything
    shares: float  # the sum of what each of them keeps, from 0 to 1

    @property
    def mean_share(self) -> float:
        """The share that is kept, each session counting the same."""
        return self.shares / self.sessions


def score_one(
    source: str, budget: str, way: str, measure: str, kept: int, asked: int
) -> HandoverScore:
    """What one way kept of one session."""
    return HandoverScore(
        source=source,
        budget=budget,
        way=way,
        measure=measure,
        kept=kept,
        asked=asked,
        sessions=int(asked > 0),
        shares=kept / asked if asked else 0.0,
    )


class HandoverCost(Value):
    """The tokens that our views took of real sessions, at one budget."""

    source: str
    budget: str
    sessions: int
    tokens: int
    of_tokens: int
    over_budget: int = 0
    faults: tuple[str, ...] = ()


class Report(Value):
    """Everything one evaluation found."""

    counter: str
    seed: int
    sessions: tuple[tuple[str, int], ...]  # the corpora, and how many sessions of each
    scores: tuple[Score, ...]
    costs: tuple[StrategyCost, ...]
    drift: tuple[Round, ...] = ()
    detection: tuple[Detection, ...] = ()
    referee: tuple[RefereeScore, ...] = ()
    handover: tuple[HandoverScore, ...] = ()
    handover_costs: tuple[HandoverCost, ...] = ()
    notes: tuple[str, ...] = ()
    seconds: float = 0.0


def add_up(values: Iterable[_V], *keys: str) -> tuple[_V, ...]:
    """Values that agree in these fields as one; its other fields are added, and None stays None."""
    totals: dict[tuple[object, ...], _V] = {}
    for one in values:
        key = tuple(getattr(one, name) for name in keys)
        old = totals.get(key)
        totals[key] = one if old is None else _add(old, one, keys)
    return tuple(totals.values())


def _add(one: _V, two: _V, keys: Sequence[str]) -> _V:
    names = [name for name in type(one).model_fields if name not in keys]
    pairs = {name: (getattr(one, name), getattr(two, name)) for name in names}
    added = {name: None if None in (a, b) else a + b for name, (a, b) in pairs.items()}
    return one.model_copy(update=added)
